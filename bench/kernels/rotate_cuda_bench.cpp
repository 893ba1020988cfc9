// Rotating runs on a GPU.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "bench/typed_gradient.h"
#include "kernels/codes/rotate.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kRun = 1024;
constexpr DrawKey kKey{.seed = 1, .step = 1};

CudaSubject rotate_subject(std::int64_t n) {
  struct Set {
    Buffer<float> rotated;
    Rotator rotator{kRun, Device::cuda()};
  };
  struct State {
    std::vector<Buffer<float>> gradients;
    std::vector<std::unique_ptr<Set>> sets;
  };
  const auto state = std::make_shared<State>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 8.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = gradients_on(stream, n, num_sets);
    std::vector<std::function<void()>> works;
    for (Buffer<float>& gradient : state->gradients) {
      state->sets.push_back(std::make_unique<Set>());
      Set& set = *state->sets.back();
      set.rotated = Buffer<float>(n, Device::cuda());
      const RotateTask task{.values = gradient.data(), .count = n, .out = set.rotated.data()};
      works.emplace_back([=, &set, &stream] { set.rotator.run({&task, 1}, Rotation::kForward, kKey, stream); });
    }
    return works;
  };
  // The bits of the CPU.
  subject.check = [=](Stream& stream) {
    std::vector<float> found(static_cast<std::size_t>(n));
    copy<float>(state->sets.back()->rotated.span(), std::span(found), stream);
    stream.synchronize();
    std::vector<float> expected(found.size());
    const RotateTask task{.values = gradient(n), .count = n, .out = expected.data()};
    Stream cpu(Device::cpu());
    Rotator(kRun).run({&task, 1}, Rotation::kForward, kKey, cpu);
    return std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0;
  };
  return subject;
}

}  // namespace

void register_cuda_rotate() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      register_cuda_subject(cuda_bench_name("rotate_1024", bench_type(ElementType::kFloat32), n),
                            8.0 * static_cast<double>(n), residency, [=] { return rotate_subject(n); });
    }
  }
}

}  // namespace terngrad::bench
