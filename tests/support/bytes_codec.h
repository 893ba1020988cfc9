// A user-defined codec without kernels of its own: 8-bit levels, one shared scaler per tensor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/codec/host_coder.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad::testing {

inline constexpr float kByteLevels = 127.0f;

/// Sends round(127 g / s) as int8, where s is the largest |g| over all workers.
class Bytes : public Codec {
 public:
  struct Options {
    bool draws = false;      // stochastic rounding, else to nearest
    bool fixed_size = true;  // traits().fixed_size
  };
  Bytes() = default;
  explicit Bytes(const Options& options) : options_(options) {}
  const Options& options() const { return options_; }

  const std::string& name() const override {
    static const std::string name = "bytes";
    return name;
  }
  std::uint8_t wire_id() const override { return 200; }
  CodecTraits traits() const override {
    return {.bits_per_element = 8, .fixed_size = options_.fixed_size, .unbiased = false};
  }
  ScalerSharing sharing() const override { return ScalerSharing::kMax; }
  std::string options_text() const override { return ""; }
  std::int64_t num_scalers(std::int64_t n) const override { return n > 0 ? 1 : 0; }
  ScalerRange scaler_range(const Slice& slice) const override { return {0, slice.count > 0 ? 1 : 0}; }
  std::uint8_t record_format(PayloadForm) const override { return 0; }
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm) const override { return (slice.count + 3) / 4 * 4; }
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  void check(const EncodedSlice& encoded) const override {
    const std::int64_t expected = max_payload_bytes(encoded.slice, PayloadForm::kNatural);
    if (encoded.format != 0 || static_cast<std::int64_t>(encoded.payload.size()) != expected) {
      TERNGRAD_THROW(CommunicationError, "[bytes] expected ", expected, " bytes in format 0");
    }
  }
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override {
    const float unit = encoded.scalers.empty() ? 0.0f : encoded.scalers[0] / kByteLevels;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto code = static_cast<std::int8_t>(encoded.payload[static_cast<std::size_t>(first) + i]);
      out[i] = unit * static_cast<float>(code);
    }
  }

 private:
  Options options_;
};

inline std::vector<Slice> nonempty_tensors(const Layout& layout, const std::vector<int>& segments) {
  std::vector<Slice> slices;
  for (const int segment : segments) {
    const std::int64_t n = layout.segment(segment).num_elements;
    if (n > 0) slices.push_back({segment, 0, n});
  }
  return slices;
}

class BytesCoder final : public HostCoder {
 public:
  BytesCoder(const Bytes& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : HostCoder(codec, setup, segments, slots),
        draws_(codec.options().draws),
        plan_(nonempty_tensors(setup.layout, segments)) {}

 private:
  void measure_worker(const TensorTable& gradient, std::span<float> row, Stream& stream) override {
    local_scalers(plan_, {&gradient, 1}, /*clip_factor=*/0, ScalerRule::kPaper, row, stream);
  }
  std::int64_t encode_slice(const EncodeTask& task, Stream&) override {
    const std::int64_t bytes = (task.slice.count + 3) / 4 * 4;
    std::memset(task.payload, 0, static_cast<std::size_t>(bytes));
    if (task.slice.count == 0 || task.scalers[0] == 0) return bytes;
    const float* g = task.gradient.slice(task.slice);
    const std::int64_t first = setup().layout.segment(task.slice.segment).draw_offset + task.slice.first;
    for (std::int64_t i = 0; i < task.slice.count; ++i) {
      const float x = g[i] * (kByteLevels / task.scalers[0]);
      const auto draw = draws_ ? draw32(task.key, static_cast<std::uint64_t>(first + i)) >> 8 : 0u;
      const float rounded = draws_ ? std::floor(x + 0x1p-24f * static_cast<float>(draw)) : std::nearbyint(x);
      const float code = std::clamp(rounded, -kByteLevels, kByteLevels);
      task.payload[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(code));
    }
    return bytes;
  }

  bool draws_;
  StatisticsPlan plan_;
};

inline std::unique_ptr<Coder> Bytes::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                PayloadSlots& slots) const {
  return std::make_unique<BytesCoder>(*this, setup, segments, slots);
}

}  // namespace terngrad::testing
