// What benchmarks of quantizing kernels have in common: a slice of one scaler, its codes, and a check of these.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/typed_gradient.h"
#include "kernels/codes/quantize_task.h"
#include "kernels/random/philox.h"

namespace terngrad::bench {

inline constexpr DrawKey kQuantizeKey{1, 1, 0, DrawPurpose::kQuantize};

/// One way to quantize, on either device.
template <class Options>
struct QuantizeBench {
  std::string name;  // "quantize_q4" and the like
  Options options;
  ElementType type = ElementType::kFloat32;
  float scaler = 0;
  std::function<std::int64_t(std::int64_t n)> payload_bytes;  // of n codes
  /// Whether codes of a gradient, with draw offset 0 and kQuantizeKey, are right.
  std::function<bool(std::span<const std::uint8_t> payload, std::int64_t n, const float* gradient)> is_right;

  /// Read and written by one run.
  double moved_bytes(std::int64_t n) const {
    return static_cast<double>(element_bytes(type)) * static_cast<double>(n) + static_cast<double>(payload_bytes(n));
  }
};

/// @tparam Quantizer  its run takes tasks, options and a key: LevelQuantizer and those like it
template <class Quantizer, class Options>
Subject quantize_subject(std::int64_t n, const QuantizeBench<Options>& bench) {
  struct State {
    QuantizeBench<Options> bench;
    Quantizer quantizer;
    Buffer<std::uint64_t> payload;
    QuantizeTask task;
  };
  const auto state = std::make_shared<State>();
  state->bench = bench;
  const std::int64_t bytes = bench.payload_bytes(n);
  state->payload = Buffer<std::uint64_t>((bytes + 7) / 8);
  state->task = {.gradient = typed_gradient(bench.type, n).elements,
                 .count = n,
                 .scalers = &state->bench.scaler,
                 .payload = reinterpret_cast<std::uint8_t*>(state->payload.data()),
                 .type = bench.type};
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = bench.moved_bytes(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] { state->quantizer.run({&state->task, 1}, state->bench.options, kQuantizeKey, stream); };
  };
  subject.check = [=] {
    return state->bench.is_right({state->task.payload, static_cast<std::size_t>(bytes)}, n,
                                 typed_gradient(state->bench.type, n).values);
  };
  return subject;
}

/// Registers them for every size and number of threads.
template <class Quantizer, class Options>
void register_quantizers(const std::vector<QuantizeBench<Options>>& benches) {
  for (const QuantizeBench<Options>& bench : benches) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(bench.name, bench_type(bench.type), n, threads), n, threads,
                         [=] { return quantize_subject<Quantizer>(n, bench); });
      }
    }
  }
}

}  // namespace terngrad::bench
