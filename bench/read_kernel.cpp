#include "bench/harness.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/read_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, as Highway asks.
#include <hwy/highway.h>

#include <atomic>

#include "kernels/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float ReadRange(const float* HWY_RESTRICT values, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
  std::int64_t i = 0;
  for (; i + 8 * lanes <= count; i += 8 * lanes) {
    a0 = hn::Add(a0, hn::LoadU(d, values + i));
    a1 = hn::Add(a1, hn::LoadU(d, values + i + lanes));
    a2 = hn::Add(a2, hn::LoadU(d, values + i + 2 * lanes));
    a3 = hn::Add(a3, hn::LoadU(d, values + i + 3 * lanes));
    a4 = hn::Add(a4, hn::LoadU(d, values + i + 4 * lanes));
    a5 = hn::Add(a5, hn::LoadU(d, values + i + 5 * lanes));
    a6 = hn::Add(a6, hn::LoadU(d, values + i + 6 * lanes));
    a7 = hn::Add(a7, hn::LoadU(d, values + i + 7 * lanes));
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += values[i];
  return total;
}

}  // namespace terngrad::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::bench {
HWY_EXPORT(ReadRange);

float read_all(std::span<const float> values, Stream& stream) {
  std::atomic<float> total{0};
  const auto count = static_cast<std::int64_t>(values.size());
  parallel_for(stream.num_threads(), count, 4096, [&](std::int64_t begin, std::int64_t end) {
    total.fetch_add(HWY_DYNAMIC_DISPATCH(ReadRange)(values.data() + begin, end - begin));
  });
  return total.load();
}

}  // namespace terngrad::bench
#endif
