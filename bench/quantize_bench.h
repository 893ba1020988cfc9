// Benchmarks of quantizing kernels: a slice of one scaler, its codes, and a check of these.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "kernels/codes/quantize_task.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/random/philox.h"

namespace terngrad::bench {

inline constexpr DrawKey kQuantizeKey{1, 1, 0, DrawPurpose::kQuantize};

/// One way to quantize.
template <class Options>
struct QuantizeBench {
  std::string name;  // "quantize_q4" and the like
  Options options = {};
  CodeFormat format = CodeFormat::kT2;
  int num_workers = 1;  // lanes only
  int lane_levels = 2;  // lanes only: m
  ElementType type = ElementType::kFloat32;
  float scaler = 0;
  /// True if code i is right for an element, with draw offset 0 and kQuantizeKey.
  std::function<bool(const PackedCodes& codes, std::int64_t i, float g)> is_right = nullptr;
};

/// Its codes are checked on 65,536 elements spread over the gradient.
/// @tparam Quantizer  its run takes tasks, options and a key: LevelQuantizer and those like it
template <class Quantizer, class Options>
Subject quantize_subject(std::int64_t n, const QuantizeBench<Options>& bench) {
  const std::int64_t bytes = payload_bytes(bench.format, n, bench.num_workers, bench.lane_levels);
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<std::uint8_t> gradient;
      Buffer<float> scaler;
      Buffer<std::uint64_t> payload;
      Quantizer quantizer;
    };
    const auto set = std::make_shared<Set>(Set{{typed_gradient(bench.type, n).elements, stream},
                                               on_device(std::span(&bench.scaler, 1), stream),
                                               Buffer<std::uint64_t>((bytes + 7) / 8, stream.device()),
                                               Quantizer(stream.device())});
    const QuantizeTask task{.gradient = set->gradient.data(),
                            .count = n,
                            .scalers = set->scaler.data(),
                            .payload = reinterpret_cast<std::uint8_t*>(set->payload.data()),
                            .type = bench.type};
    const auto check = [=, &stream] {
      const std::vector<std::uint64_t> words = on_host(set->payload.span(), stream);
      const PackedCodes codes{bench.format, bytes_of(std::span(words)).first(static_cast<std::size_t>(bytes)), n,
                              bench.num_workers, bench.lane_levels};
      check_payload(codes);
      const std::span<const float> values = typed_gradient(bench.type, n).values;
      for (std::int64_t i = 0; i < n; i += std::max<std::int64_t>(1, n / 65536)) {
        if (!bench.is_right(codes, i, values[static_cast<std::size_t>(i)])) return false;
      }
      return true;
    };
    const auto run = [=, &stream] { set->quantizer.run({&task, 1}, bench.options, kQuantizeKey, stream); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = static_cast<double>(element_bytes(bench.type)) * elements + static_cast<double>(bytes),
          .elements = elements,
          .prepare = prepare};
}

template <class Quantizer, class Options>
void add_quantizer(Rows& rows, const QuantizeBench<Options>& bench) {
  rows.add(bench.name, bench_type(bench.type), [=](std::int64_t n) { return quantize_subject<Quantizer>(n, bench); });
}

}  // namespace terngrad::bench
