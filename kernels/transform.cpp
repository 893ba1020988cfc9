#include "kernels/transform.h"

#include <atomic>

#include "kernels/cpu/transform.h"
#include "kernels/parallel.h"

namespace terngrad {
namespace {

/// Elements worth a thread.
constexpr std::int64_t kGrain = 16384;

}  // namespace

bool all_finite(std::span<const float> values, Stream& stream) {
  std::atomic<bool> finite{true};
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 if (!cpu::all_finite(values.data() + begin, end - begin)) finite = false;
               });
  return finite;
}

std::int64_t zero_nonfinite(std::span<float> values, Stream& stream) {
  std::atomic<std::int64_t> num_replaced{0};
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 num_replaced += cpu::zero_nonfinite(values.data() + begin, end - begin);
               });
  return num_replaced;
}

void scale(std::span<float> values, float factor, Stream& stream) {
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kGrain,
               [&](std::int64_t begin, std::int64_t end) { cpu::scale(values.data() + begin, end - begin, factor); });
}

}  // namespace terngrad
