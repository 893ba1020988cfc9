#include "compress/codecs/klevel_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/codec/host_coder.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/codes/rounds_up.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {
namespace {

constexpr std::int64_t kGrain = 1024;  // words worth a thread

std::uint32_t word_at(std::span<const std::uint8_t> payload, std::int64_t word) {
  std::uint32_t value = 0;
  std::memcpy(&value, payload.data() + 4 * word, sizeof value);
  return value;
}

class KLevelCoder final : public HostCoder {
 public:
  KLevelCoder(const KLevelCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : HostCoder(codec, setup, segments, slots),
        bits_(codec.bits()),
        plan_(statistics_slices(setup.layout, segments, /*block_elements=*/0)) {}

 private:
  void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) override {
    local_scalers(plan_, {&gradient, 1}, /*clip_factor=*/0, ScalerRule::kPaper, row, stream);
  }

  std::int64_t encode_slice(const EncodeTask& task, Stream& stream) override {
    const std::int64_t bytes = codec().max_payload_bytes(task.slice, PayloadForm::kNatural);
    std::memset(task.payload, 0, static_cast<std::size_t>(bytes));
    const float s = task.scalers[0];
    if (s == 0) return bytes;
    const float inverse = 1.0f / s;
    const auto top = static_cast<float>((1 << bits_) - 1);
    const float* g = task.gradient.slice(task.slice);
    const std::int64_t first_draw = setup().layout.segment(task.slice.segment).draw_offset + task.slice.first;
    const auto code_of = [&](std::int64_t i) {
      const float x = std::clamp((1.0f - g[i] * inverse) * (top / 2), 0.0f, top);
      const float below = std::floor(x);
      const bool up = rounds_up(task.key, static_cast<std::uint64_t>(first_draw + i), x - below);
      return static_cast<std::uint32_t>(below) + (up ? 1u : 0u);
    };
    const int per_word = 32 / bits_;
    parallel_for(stream.num_threads(), bytes / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t word = begin; word < end; ++word) {
        const std::int64_t first = word * per_word;
        const std::int64_t count = std::min<std::int64_t>(per_word, task.slice.count - first);
        std::uint32_t codes = 0;
        for (int j = 0; j < count; ++j) codes |= code_of(first + j) << (j * bits_);
        std::memcpy(task.payload + 4 * word, &codes, sizeof codes);
      }
    });
    return bytes;
  }

  int bits_;
  StatisticsPlan plan_;
};

}  // namespace

KLevelCodec::KLevelCodec(const KLevelOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(options.bits == 1 || options.bits == 2 || options.bits == 4, "[klevel] bits must be 1, 2 or 4, got ",
                   options.bits);
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[klevel] num_workers must be at least 1, got ", options.num_workers);
}

const std::string& KLevelCodec::name() const {
  static const std::string name = "klevel";
  return name;
}

CodecTraits KLevelCodec::traits() const {
  return {.bits_per_element = static_cast<double>(options_.bits), .max_scaler = kMaxScaler, .unbiased = true};
}

std::string KLevelCodec::options_text() const {
  return "bits=" + std::to_string(options_.bits) + " workers=" + std::to_string(options_.num_workers);
}

std::int64_t KLevelCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return 4 * ((slice.count * options_.bits + 31) / 32);
}

std::unique_ptr<Coder> KLevelCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                               PayloadSlots& slots) const {
  return std::make_unique<KLevelCoder>(*this, setup, segments, slots);
}

void KLevelCodec::check(const EncodedSlice& encoded) const {
  const Slice& slice = encoded.slice;
  const std::int64_t expected = max_payload_bytes(slice, PayloadForm::kNatural);
  const int format = record_format(PayloadForm::kNatural);
  if (encoded.format != format || static_cast<std::int64_t>(encoded.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[klevel] codes of segment ", slice.segment, " have ", encoded.payload.size(),
                   " bytes in format ", static_cast<int>(encoded.format), ", expected ", expected, " in format ",
                   format);
  }
  // Every code is a level: what no encoder writes are unused bits that are not 0.
  const std::int64_t used_bits = slice.count * options_.bits % 32;
  if (used_bits != 0 && word_at(encoded.payload, expected / 4 - 1) >> used_bits != 0) {
    TERNGRAD_THROW(CommunicationError, "[klevel] unused bits of segment ", slice.segment, " are not 0");
  }
}

void KLevelCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  if (out.empty()) return;
  const std::int32_t top = (1 << options_.bits) - 1;
  const float unit = encoded.scalers[0] / static_cast<float>(top);
  const int per_word = 32 / options_.bits;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t element = first + static_cast<std::int64_t>(i);
    const std::uint32_t word = word_at(encoded.payload, element / per_word);
    const auto code = static_cast<std::int32_t>(word >> (element % per_word * options_.bits)) & top;
    out[i] = unit * static_cast<float>(top - 2 * code);
  }
}

KLevelOptions read_klevel_options(SpecReader& reader) {
  KLevelOptions o;
  o.bits = reader.choice("bits", o.bits, {{"1", 1}, {"2", 2}, {"4", 4}}, "of an element: 2, 4 or 16 levels");
  return o;
}

}  // namespace terngrad
