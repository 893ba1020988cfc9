// Scalers of runs of 4096 elements, and quantizing to the levels of a codebook.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/quantize_bench.h"
#include "bench/rows.h"
#include "kernels/codes/codebook_codes.h"
#include "kernels/statistics/codebook_scalers.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kRun = 4096;
constexpr float kUnit = 0.01f;

std::vector<Slice> runs_of(std::int64_t n) {
  std::vector<Slice> runs;
  for (std::int64_t first = 0; first < n; first += kRun) runs.push_back({0, first, std::min(kRun, n - first)});
  return runs;
}

/// Scalers must be bit-identical to the CPU's, and make up for the quantization error of a Gaussian.
Subject scalers_subject(std::int64_t n, int levels) {
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<float> gradient;
      CodebookScalerPlan plan;
      Buffer<float> units, scalers;
    };
    const std::vector<Slice> runs = runs_of(n);
    const auto count = static_cast<std::int64_t>(runs.size());
    const auto set =
        std::make_shared<Set>(Set{{gradient(n), stream},
                                  CodebookScalerPlan(runs, codebook(levels), CodebookScale::kUnbiased, stream.device()),
                                  Buffer<float>(count, stream.device()),
                                  Buffer<float>(count, stream.device())});
    const auto table = [=](const float* elements) {
      Layout layout;
      layout.add("gradient", {n});
      return TensorTable(layout, const_cast<float*>(elements));
    };
    const auto check = [=, &stream] {
      std::vector<float> units(static_cast<std::size_t>(count)), scalers(units.size());
      const TensorTable on_host_table = table(gradient(n).data());
      Stream cpu;
      CodebookScalerPlan(runs, codebook(levels), CodebookScale::kUnbiased)
          .run({&on_host_table, 1}, units, scalers, cpu);
      return on_host(set->units.span(), stream) == units && on_host(set->scalers.span(), stream) == scalers &&
             scalers[0] > units[0];
    };
    const auto run = [=, &stream, measured = table(set->gradient.data())] {
      set->plan.run({&measured, 1}, set->units.span(), set->scalers.span(), stream);
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = 4 * elements, .elements = elements, .num_launches = 1, .prepare = prepare};
}

/// CodebookQuantizer with the arguments of quantizers that draw.
struct Quantizer {
  CodebookQuantizer quantizer;
  explicit Quantizer(Device device) : quantizer(device) {}
  void run(std::span<const QuantizeTask> tasks, int levels, const DrawKey&, Stream& stream) {
    quantizer.run(tasks, levels, stream);
  }
};

/// True if no other magnitude is nearer to the element.
bool is_right(const PackedCodes& codes, std::int64_t i, float g, int levels) {
  const Codebook book = codebook(levels);
  const int bits = codebook_bits(codes.format);
  int code = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const auto place = static_cast<std::size_t>(i * bits + bit);
    code |= (codes.payload[place / 8] >> (place % 8) & 1) << bit;
  }
  if (g != 0 && (code >= book.num_magnitudes) != std::signbit(g)) return false;
  const float x = std::fabs(g) / kUnit;
  const float error = std::fabs(x - book.values[code % book.num_magnitudes]);
  for (int k = 0; k < book.num_magnitudes; ++k) {
    if (std::fabs(x - book.values[k]) < error - 1e-5f) return false;
  }
  return true;
}

const Registration registration(__FILE__, [](Rows& rows) {
  for (const int levels : {3, 16}) {
    rows.add("codebook_scalers_" + std::to_string(levels), "f32",
             [=](std::int64_t n) { return scalers_subject(n, levels); });
  }
  for (const int levels : {4, 8, 16}) {
    const CodeFormat format = codebook_format(levels);
    const auto check = [=](const PackedCodes& codes, std::int64_t i, float g) { return is_right(codes, i, g, levels); };
    add_quantizer<Quantizer, int>(rows, {.name = "quantize_" + to_string(format),
                                         .options = levels,
                                         .format = format,
                                         .scaler = kUnit,
                                         .is_right = check});
  }
});

}  // namespace
}  // namespace terngrad::bench
