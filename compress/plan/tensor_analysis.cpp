#include "compress/plan/tensor_analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {
namespace {

/// A table with the tensor as its only one.
TensorTable table_of(const TensorElements& tensor) {
  Layout layout;
  layout.add("tensor", {tensor.count});
  void* const pointers[] = {const_cast<void*>(tensor.values)};
  return {layout, tensor.type, pointers};
}

TensorSummary summary_of(const Statistics& values, const Statistics& magnitudes, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const double mean = count > 0 ? values.sum / n : 0;
  const double variance = count > 0 ? std::fmax(values.sum_squares / n - mean * mean, 0) : 0;
  const bool finite = !values.is_nonfinite();
  return {.count = count,
          .mean = mean,
          .standard_deviation = finite ? std::sqrt(variance) : std::numeric_limits<double>::quiet_NaN(),
          .max_abs = static_cast<double>(values.max_abs()),
          .l1 = magnitudes.sum,
          .l2 = std::sqrt(values.sum_squares),
          .finite = finite};
}

}  // namespace

std::vector<TensorSummary> summarize(const TensorElements& tensor, std::int64_t block, Stream& stream) {
  TERNGRAD_REQUIRE(block >= 0, "block must be at least 0 (0: one for the tensor), got ", block);
  const std::int64_t step = block == 0 ? std::max<std::int64_t>(tensor.count, 1) : block;
  std::vector<Slice> slices;
  for (std::int64_t first = 0; first < tensor.count || slices.empty(); first += step) {
    slices.push_back({0, first, std::min(step, tensor.count - first)});
  }
  const TensorTable table = table_of(tensor);
  std::vector<Statistics> values(slices.size());
  std::vector<Statistics> magnitudes(slices.size());
  StatisticsPlan plan(slices);
  plan.run(table, values, stream);
  plan.run(table, magnitudes, stream, SummedAs::kMagnitudes);
  std::vector<TensorSummary> result;
  result.reserve(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    result.push_back(summary_of(values[i], magnitudes[i], slices[i].count));
  }
  return result;
}

float ternarize_tensor(const TensorElements& tensor, const TernarizeKeys& keys, std::span<std::int8_t> codes,
                       Stream& stream) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(codes.size()) == tensor.count, "the tensor has ", tensor.count,
                   " elements, there is room for ", codes.size(), " codes");
  TERNGRAD_REQUIRE(keys.clip_factor >= 0 && std::isfinite(keys.clip_factor),
                   "clip_factor must be a number of at least 0, got ", keys.clip_factor);
  TERNGRAD_REQUIRE(keys.step >> 40 == 0, "step: draws are keyed by 40 bits of it, got ", keys.step);
  TERNGRAD_REQUIRE(keys.draw_offset >= 0 && keys.draw_offset % kDrawAlignment == 0 && keys.draw_offset >> 40 == 0,
                   "draw_offset must be a multiple of ", kDrawAlignment, " from 0 to 2^40, got ", keys.draw_offset);
  StatisticsPlan plan({{0, 0, tensor.count}});
  Statistics measured;
  plan.run(table_of(tensor), {&measured, 1}, stream);
  TERNGRAD_REQUIRE(!measured.is_nonfinite(), "tensor holds NaN or infinity");
  const float s =
      keys.scaler ? *keys.scaler : local_scaler(measured, tensor.count, keys.clip_factor, ScalerRule::kPaper);
  TERNGRAD_REQUIRE(s >= 0 && s <= kMaxScaler, keys.scaler ? "scaler" : "the largest element",
                   " must be a number from 0 to ", kMaxScaler, ", got ", s);
  std::vector<std::uint32_t> payload(static_cast<std::size_t>(payload_bytes(CodeFormat::kT2, tensor.count, 1) / 4));
  const TernarizeTask task{.gradient = tensor.values,
                           .count = tensor.count,
                           .draw_offset = keys.draw_offset,
                           .scalers = &s,
                           .payload = reinterpret_cast<std::uint8_t*>(payload.data()),
                           .worker = keys.worker,
                           .type = tensor.type};
  std::int64_t bytes = 0;
  ternarize({&task, 1}, {}, {keys.seed, keys.step, 0, DrawPurpose::kTernarize}, {&bytes, 1}, stream);
  std::vector<std::int16_t> wide(codes.size());
  unpack_codes({CodeFormat::kT2, {task.payload, static_cast<std::size_t>(bytes)}, tensor.count}, 0, wide);
  std::ranges::transform(wide, codes.begin(), [](std::int16_t code) { return static_cast<std::int8_t>(code); });
  return s;
}

}  // namespace terngrad
