#include "compress/plan/codec_registry.h"

#include <algorithm>
#include <utility>

#include "compress/codecs/eden_codec.h"
#include "compress/codecs/float_codecs.h"
#include "compress/codecs/fp8_codec.h"
#include "compress/codecs/natural_codec.h"
#include "compress/codecs/onebit_codec.h"
#include "compress/codecs/powersgd_codec.h"
#include "compress/codecs/qsgd_codec.h"
#include "compress/codecs/randomk_codec.h"
#include "compress/codecs/sign_codec.h"
#include "compress/codecs/ternary_spec.h"
#include "compress/codecs/topk_codec.h"
#include "compress/plan/codec_presets.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

// One entry for each codec.
constexpr CodecEntry kCodecs[] = {
    {"fp32", "every element as it is, the baseline",
     [](SpecReader&, const CodecContext& c) -> std::unique_ptr<Codec> {
       return std::make_unique<FloatCodec>(FloatCodec::Width::kFloat32, c.num_workers);
     }},
    {"bf16", "every element rounded to the upper half of its 32 bits, ties to even",
     [](SpecReader&, const CodecContext& c) -> std::unique_ptr<Codec> {
       return std::make_unique<FloatCodec>(FloatCodec::Width::kBfloat16, c.num_workers);
     }},
    {"ternary", "-1, 0 or 1 times a scaler",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       TernaryOptions options = read_ternary_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<TernaryCodec>(options);
     },
     "TernGrad (Wen et al., NIPS 2017)"},
    {"qsgd", "uniform levels in 2, 4 or 8 bits",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       QsgdOptions options = read_qsgd_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<QsgdCodec>(options);
     },
     "QSGD (Alistarh et al., NIPS 2017)"},
    {"natural", "powers of two in 4 or 8 bits",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       NaturalOptions options = read_natural_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<NaturalCodec>(options);
     },
     "natural compression (Horvath et al., 2019), NUQSGD (Ramezani-Kebrya et al., JMLR 2021)"},
    {"sign", "one bit for each element, the sign: means, or votes of the majority",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       SignCodecOptions options = read_sign_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<SignCodec>(options);
     },
     "signSGD (Bernstein et al., ICML 2018), EF-signSGD (Karimireddy et al., ICML 2019)"},
    {"eden", "2 to 16 levels for a Gaussian, of rotated gradients",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       EdenOptions options = read_eden_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<EdenCodec>(options);
     },
     "EDEN (Vargaftik et al., ICML 2022)"},
    {"onebit", "the sign bit, and a scaler for each side of every column",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       OnebitOptions options = read_onebit_options(reader);
       options.columns = c.columns;
       options.num_workers = c.num_workers;
       return std::make_unique<OnebitCodec>(options);
     },
     "1-bit SGD (Seide et al., Interspeech 2014)"},
    {"topk", "the elements of largest magnitude, with their places",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       TopKOptions options = read_topk_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<TopKCodec>(options);
     },
     "Aji and Heafield, EMNLP 2017, Stich et al., NeurIPS 2018"},
    {"randomk", "elements at random places, the same in all workers",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       RandomKOptions options = read_randomk_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<RandomKCodec>(options);
     },
     "Stich et al., NeurIPS 2018"},
    {"powersgd", "the product of two thin factors, found in two rounds",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       PowerSgdOptions options = read_powersgd_options(reader);
       options.columns = c.columns;
       options.num_workers = c.num_workers;
       return std::make_unique<PowerSgdCodec>(options);
     },
     "PowerSGD (Vogels et al., NeurIPS 2019)"},
    {"fp8", "floating-point numbers of 8 bits, E4M3",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       Fp8CodecOptions options = read_fp8_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<Fp8Codec>(options);
     },
     "Micikevicius et al., 2022"},
};

const CodecEntry& entry_of(const std::string& name) {
  const auto found = std::ranges::find_if(kCodecs, [&](const CodecEntry& entry) { return name == entry.name; });
  if (found != std::end(kCodecs)) return *found;
  std::string known;
  for (const CodecEntry& entry : kCodecs) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  for (const CodecPreset& preset : codec_presets()) known += ", " + std::string(preset.name);
  TERNGRAD_THROW(InvalidArgument, "[codec] unknown codec '", name, "'; accepted: ", known);
}

std::unique_ptr<Codec> make(SpecReader& reader, const std::string& name, const CodecContext& context) {
  std::unique_ptr<Codec> codec = entry_of(name).make(reader, context);
  reader.finish();
  return codec;
}

CodecSpec spec_of(std::string_view text) { return expand_preset(parse_codec_spec(text), codec_presets()).spec; }

}  // namespace

std::span<const CodecEntry> codec_entries() { return kCodecs; }

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const CodecEntry& entry : kCodecs) names.emplace_back(entry.name);
  return names;
}

std::vector<SpecKey> codec_keys(const std::string& name) {
  SpecReader reader(CodecSpec{name});
  make(reader, name, {});
  return reader.keys();
}

std::unique_ptr<Codec> make_codec(std::string_view spec, const CodecContext& context) {
  const CodecSpec read = spec_of(spec);
  SpecReader reader(read);
  return make(reader, read.name, context);
}

CodecSpec canonical_codec_spec(std::string_view spec, const SpecOptions& defaults) {
  const CodecSpec read = spec_of(spec);
  SpecReader reader(read, defaults);
  make(reader, read.name, {});
  return reader.canonical();
}

}  // namespace terngrad
