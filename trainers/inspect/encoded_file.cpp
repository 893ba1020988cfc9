#include "trainers/inspect/encoded_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compress/codec/codec_spec.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/gradient_message.h"
#include "compress/wire/worker_encoder.h"
#include "datasets/formats/input_file.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "terngrad-encoded-gradient";
constexpr std::uint64_t kFormatVersion = 1;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kMaxStep = (std::uint64_t{1} << 40) - 1;

CodecPlan plan_of(const Layout& layout, const std::string& codec, int num_workers) {
  return {layout,
          {.codec = codec, .rules = {}, .size_to_binarize = 0, .quantize_logits = true, .context = {num_workers}}};
}

std::string header_of(const Layout& layout, const EncodedFileKeys& keys) {
  Json tensors = Json::array();
  for (const Segment& segment : layout.segments())
    tensors.push_back({{"name", segment.name}, {"shape", segment.shape}});
  const Json header{{"format", kFormat},
                    {"version", kFormatVersion},
                    {"codec", to_string(canonical_codec_spec(keys.codec))},
                    {"num_nodes", keys.num_workers},
                    {"seed", keys.seed},
                    {"step", keys.step},
                    {"worker", keys.worker},
                    {"tensors", std::move(tensors)}};
  // Does not throw: names are valid UTF-8, as they were read from files.
  std::string line = header.dump();
  line.resize((line.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - 1, ' ');
  return line + '\n';
}

/// Parses the first line; errors name the file and the field.
class HeaderReader {
 public:
  HeaderReader(const std::string& source, std::string_view line) : source_(source) {
    // The JSON library stops at a zero byte, which would hide the text after it.
    if (line.find('\0') != std::string_view::npos)
      fail("its first line holds a zero byte: it is no .tgrd file, or is damaged");
    try {
      header_ = Json::parse(line);
    } catch (const Json::exception&) {
      fail("its first line is no JSON: it is no .tgrd file, or is truncated");
    }
    if (!header_.is_object()) fail("its first line is no JSON object");
    if (text("format") != kFormat) fail("field format: expected ", kFormat, ", found ", field("format").dump());
    if (field("version") != kFormatVersion) {
      fail("field version: expected ", kFormatVersion, ", found ", field("version").dump());
    }
    constexpr std::size_t kNumFields = 8;
    if (header_.size() != kNumFields) fail("its first line has ", header_.size(), " fields, expected ", kNumFields);
  }

  std::string text(const char* name) const {
    if (!field(name).is_string()) fail("field ", name, ": expected a text, found ", field(name).dump());
    return field(name).get<std::string>();
  }
  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most) const {
    const Json& value = field(name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most) {
      fail("field ", name, ": expected an integer from ", least, " to ", most, ", found ", value.dump());
    }
    return value.get<std::uint64_t>();
  }
  Layout layout(std::int64_t max_elements) const {
    const Json& tensors = field("tensors");
    if (!tensors.is_array() || tensors.empty()) fail("field tensors: expected a list of tensors");
    Layout layout;
    for (const Json& tensor : tensors) {
      if (!tensor.is_object() || tensor.size() != 2 || !tensor.contains("name") || !tensor.contains("shape") ||
          !tensor["name"].is_string() || !tensor["shape"].is_array() ||
          !std::ranges::all_of(tensor["shape"], [](const Json& side) { return is_side(side); })) {
        fail("field tensors: expected objects of name and shape, found ", tensor.dump().substr(0, 80));
      }
      try {
        layout.add(tensor["name"].get<std::string>(), tensor["shape"].get<std::vector<std::int64_t>>());
      } catch (const InvalidArgument& error) {
        fail("field tensors: ", error.what());
      }
      if (layout.num_elements() > max_elements) fail("has more than the ", max_elements, " elements that are taken");
    }
    return layout;
  }
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    TERNGRAD_THROW(DataError, "'", source_, "': ", parts...);
  }

 private:
  static bool is_side(const Json& side) {
    return side.is_number_unsigned() && side.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxFileElements);
  }
  const Json& field(const char* name) const {
    if (!header_.contains(name)) fail("its first line has no field ", name);
    return header_[name];
  }

  const std::string& source_;
  Json header_;
};

}  // namespace

std::string encode_file(const GradientFile& gradients, const EncodedFileKeys& keys) {
  const int num_workers = keys.num_workers;
  const auto num_given = static_cast<int>(gradients.workers.size());
  TERNGRAD_REQUIRE(num_workers >= 1 && num_workers <= kMaxSummedWorkers, "num_nodes must be from 1 to ",
                   kMaxSummedWorkers, ", got ", num_workers);
  TERNGRAD_REQUIRE(keys.worker >= 0 && keys.worker < num_workers, "worker ", keys.worker, " is none of ", num_workers);
  TERNGRAD_REQUIRE(keys.step <= kMaxStep, "step: draws are keyed by 40 bits of it, got ", keys.step);
  TERNGRAD_REQUIRE(num_given == 1 || num_given == num_workers, "there are gradients of ", num_given,
                   " workers, of num_nodes ", num_workers);
  const Layout& layout = gradients.layout;
  const CodecPlan plan = plan_of(layout, keys.codec, num_workers);
  Stream stream(Device::cpu(), 1);
  std::vector<float> scalers(static_cast<std::size_t>(plan.num_scalers()));
  WorkerEncoder encoder(layout, plan, keys.worker, num_workers, keys.seed);
  // Only read through the table.
  const auto table_of = [&](int worker) {
    const Buffer<float>& values = gradients.workers[num_given == 1 ? 0 : static_cast<std::size_t>(worker)];
    return TensorTable(layout, const_cast<float*>(values.data()));
  };
  const auto measure = [&](WorkerEncoder& of, int worker) {
    of.measure(table_of(worker), keys.step, stream);
    for (int segment = 0; segment < layout.num_segments(); ++segment) {
      if (!of.is_nonfinite(segment)) continue;
      TERNGRAD_THROW(DataError, "'", gradients.source, "': tensor '", layout.segment(segment).name, "' of worker ",
                     worker, " holds numbers that are too large for ", keys.codec);
    }
  };
  measure(encoder, keys.worker);
  for (int worker = 0; worker < num_given && num_given > 1; ++worker) {
    if (worker == keys.worker) continue;
    WorkerEncoder other(layout, plan, worker, num_workers, keys.seed);
    measure(other, worker);
    other.copy_scalers(scalers);
    encoder.set_scalers(worker, scalers);
  }
  const std::span<const std::uint8_t> message = encoder.gradient_message(
      table_of(keys.worker), {.run_id = keys.seed, .fingerprint = plan.fingerprint(), .step = keys.step}, stream);
  std::string file = header_of(layout, keys);
  file.append(reinterpret_cast<const char*>(message.data()), message.size());
  return file;
}

DecodedFile decode_file(const std::filesystem::path& path) {
  const InputFile input(path);
  const std::uint64_t most = kMaxHeaderBytes + 8 * static_cast<std::uint64_t>(kMaxFileElements);
  if (input.num_bytes() > most) {
    TERNGRAD_THROW(DataError, "'", path.string(), "': has ", input.num_bytes(), " bytes, more than any .tgrd file");
  }
  return parse_encoded_file(input.read_all(), path.string());
}

DecodedFile parse_encoded_file(std::span<const std::uint8_t> content, const std::string& source,
                               std::int64_t max_elements) {
  const std::string_view whole(reinterpret_cast<const char*>(content.data()), content.size());
  const std::size_t end = whole.substr(0, kMaxHeaderBytes).find('\n');
  if (end == std::string_view::npos) {
    TERNGRAD_THROW(DataError, "'", source, "': has no first line: it is no .tgrd file, or is truncated");
  }
  const HeaderReader header(source, whole.substr(0, end));
  DecodedFile decoded{.keys = {.codec = header.text("codec"),
                               .num_workers = static_cast<int>(header.number("num_nodes", 1, kMaxSummedWorkers)),
                               .seed = header.number("seed", 0, std::numeric_limits<std::uint64_t>::max()),
                               .step = header.number("step", 0, kMaxStep),
                               .worker = 0},
                      .gradients = {.source = source, .layout = header.layout(max_elements), .workers = {}}};
  decoded.keys.worker =
      static_cast<int>(header.number("worker", 0, static_cast<std::uint64_t>(decoded.keys.num_workers) - 1));
  if ((end + 1) % kAlignment != 0)
    header.fail("its first line ends at byte ", end + 1, ", no multiple of ", kAlignment);
  const std::string_view message = whole.substr(end + 1);
  std::vector<std::uint64_t> aligned((message.size() + 7) / 8);
  if (!message.empty()) std::memcpy(aligned.data(), message.data(), message.size());
  Buffer<float> values;
  try {
    const CodecPlan plan = plan_of(decoded.gradients.layout, decoded.keys.codec, decoded.keys.num_workers);
    Message read;
    read_gradient_message({reinterpret_cast<const std::uint8_t*>(aligned.data()), message.size()},
                          decoded.gradients.layout, plan,
                          {.run_id = decoded.keys.seed,
                           .fingerprint = plan.fingerprint(),
                           .step = decoded.keys.step,
                           .seed = decoded.keys.seed},
                          read);
    if (read.worker != decoded.keys.worker) {
      header.fail("field worker: expected the message's, ", read.worker, ", found ", decoded.keys.worker);
    }
    values = zeros<float>(decoded.gradients.layout.flat_elements());  // after the message was checked
    decode_gradient(read, plan, TensorTable(decoded.gradients.layout, values.data()));
  } catch (const InvalidArgument& error) {
    header.fail("field codec: ", error.what());
  } catch (const CommunicationError& error) {
    header.fail(error.what());
  }
  decoded.gradients.workers.push_back(std::move(values));
  return decoded;
}

}  // namespace terngrad
