#include "compress/codecs/codec_registry.h"

#include "compress/codecs/float_codecs.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Codec> (*make)(const CodecOptions&);
};

// One line for each codec.
constexpr Entry kCodecs[] = {
    {"fp32",
     [](const CodecOptions& o) -> std::unique_ptr<Codec> {
       return std::make_unique<FloatCodec>(FloatCodec::Width::kFloat32, o.num_workers);
     }},
    {"bf16",
     [](const CodecOptions& o) -> std::unique_ptr<Codec> {
       return std::make_unique<FloatCodec>(FloatCodec::Width::kBfloat16, o.num_workers);
     }},
    {"ternary",
     [](const CodecOptions& o) -> std::unique_ptr<Codec> {
       TernaryOptions options = o.ternary;
       options.num_workers = o.num_workers;
       return std::make_unique<TernaryCodec>(options);
     }},
};

}  // namespace

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kCodecs) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Codec> make_codec(const std::string& name, const CodecOptions& options) {
  std::string known;
  for (const Entry& entry : kCodecs) {
    if (name == entry.name) return entry.make(options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[codec] unknown codec '", name, "'; accepted: ", known);
}

}  // namespace terngrad
