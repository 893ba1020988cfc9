#include "compress/exchange/overflow.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/transform.h"

namespace terngrad {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr std::int64_t kGrain = 1 << 16;

}  // namespace

float max_mean(float factor) {
  TERNGRAD_REQUIRE(std::isfinite(factor) && factor > 0, "[mean] a factor must be finite and above 0, got ", factor);
  if (factor <= 1) return kMax;
  // Quotient and product are rounded, so the limit is this quotient or a neighbor.
  float max = kMax / factor;
  while (!std::isfinite(max * factor)) max = std::nextafter(max, 0.0f);
  while (std::isfinite(std::nextafter(max, kMax) * factor)) max = std::nextafter(max, kMax);
  return max;
}

bool are_within(std::span<const float> values, float max, Stream& stream) {
  if (!stream.device().is_cpu()) TERNGRAD_THROW(NotSupported, "[mean] limits are looked at by the CPU");
  if (max == kMax) return all_finite(values, stream);
  std::atomic<bool> all{true};
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 const auto part =
                     values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
                 // False for NaN.
                 if (!std::ranges::all_of(part, [max](float value) { return std::abs(value) <= max; })) {
                   all = false;
                 }
               });
  return all;
}

}  // namespace terngrad
