#include "kernels/tensor/transform.h"

#include <algorithm>
#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"

namespace terngrad::bench {
namespace {

/// Work on a copy of the gradient that the work leaves as it is, so that every round sees the same.
Subject in_place(std::int64_t n, double floats_moved, void (*apply)(std::span<float> values, Stream&)) {
  const auto values = std::make_shared<Buffer<float>>(n);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * floats_moved * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    std::copy_n(gradient(n), n, values->data());
    return [=, &stream] { apply(values->span(), stream); };
  };
  subject.check = [=] { return std::equal(values->data(), values->data() + n, gradient(n)); };
  return subject;
}

}  // namespace

void register_transform() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      register_subject(bench_name("all_finite", "f32", n, threads), n, threads, [=] {
        return in_place(n, 1, [](std::span<float> values, Stream& stream) {
          benchmark::DoNotOptimize(all_finite(values, stream));
        });
      });
      register_subject(bench_name("zero_nonfinite", "f32", n, threads), n, threads, [=] {
        return in_place(n, 1, [](std::span<float> values, Stream& stream) { zero_nonfinite(values, stream); });
      });
      register_subject(bench_name("scale", "f32", n, threads), n, threads, [=] {
        return in_place(n, 2, [](std::span<float> values, Stream& stream) { scale(values, 1.0f, stream); });
      });
    }
  }
}

}  // namespace terngrad::bench
