#include "kernels/tensor/transform.h"

#include <atomic>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/transform.h"
#include "kernels/tensor/cuda/transform.h"

namespace terngrad {
namespace {

/// Runs `run` on a zero in device memory and returns the resulting value. Waits for it.
template <class T, class Run>
T result_on_host(Stream& stream, const Run& run) {
  Buffer<T> on_device(1, stream.device());
  fill_zero(on_device.span(), stream);
  run(on_device.data());
  T result = 0;
  copy<T>(on_device.span(), {&result, 1}, stream);
  stream.synchronize();
  return result;
}

}  // namespace

bool all_finite(std::span<const float> values, Stream& stream) {
  if (stream.device().is_cuda()) {
    return result_on_host<std::uint32_t>(
               stream, [&](std::uint32_t* found) { cuda::find_nonfinite(values, found, stream); }) == 0;
  }
  std::atomic<bool> finite{true};
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 if (!cpu::all_finite(values.data() + begin, end - begin)) finite = false;
               });
  return finite;
}

void find_nonfinite(std::span<const float> values, std::uint32_t* found, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::find_nonfinite(values, found, stream);
  if (!all_finite(values, stream)) *found = 1;
}

std::int64_t zero_nonfinite(std::span<float> values, Stream& stream) {
  if (stream.device().is_cuda()) {
    return result_on_host<std::int64_t>(
        stream, [&](std::int64_t* num_replaced) { cuda::zero_nonfinite(values, num_replaced, stream); });
  }
  std::atomic<std::int64_t> num_replaced{0};
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 num_replaced += cpu::zero_nonfinite(values.data() + begin, end - begin);
               });
  return num_replaced;
}

void zero_nonfinite(std::span<float> values, std::int64_t* num_replaced, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::zero_nonfinite(values, num_replaced, stream);
  *num_replaced += zero_nonfinite(values, stream);
}

void multiply(std::span<const float> a, std::span<const float> b, std::span<float> out, Stream& stream) {
  TERNGRAD_REQUIRE(a.size() == out.size() && b.size() == out.size(), "[multiply] lengths differ: ", a.size(), ", ",
                   b.size(), " and ", out.size());
  if (stream.device().is_cuda()) return cuda::multiply(a, b, out, stream);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = a[i] * b[i];
}

void scale(std::span<float> values, float factor, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::scale(values, factor, nullptr, stream);
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(values.size()), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) { cpu::scale(values.data() + begin, end - begin, factor); });
}

void scale(std::span<float> values, const float* factor, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::scale(values, 0, factor, stream);
  scale(values, *factor, stream);
}

}  // namespace terngrad
