// Votes on the signs of eight messages on a GPU.
#include "kernels/codes/votes.h"

#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/sign_check.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr float kScale = 0.025f;

CudaSubject votes(std::int64_t n) {
  struct Set {
    std::vector<Buffer<std::uint8_t>> payloads;
    std::vector<const std::uint8_t*> pointers;
    std::vector<std::int64_t> bytes;
    Buffer<float> out;
    VoteCounter counter{Device::cuda()};
  };
  struct State {
    std::vector<std::vector<std::uint8_t>> signs;
    std::vector<std::unique_ptr<Set>> sets;
    Buffer<float> scale{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n) +
                  static_cast<double>(kVoters) * static_cast<double>(payload_bytes(CodeFormat::kBits, n, 1));
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->signs = random_signs(n);
    copy<float>({&kScale, 1}, state->scale.span(), stream);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      state->sets.push_back(std::make_unique<Set>());
      Set& set = *state->sets.back();
      set.out = Buffer<float>(n, stream.device());
      for (const std::vector<std::uint8_t>& of_worker : state->signs) {
        set.bytes.push_back(static_cast<std::int64_t>(of_worker.size()));
        set.payloads.emplace_back(set.bytes.back(), stream.device());
        copy<std::uint8_t>(of_worker, set.payloads.back().span(), stream);
        set.pointers.push_back(set.payloads.back().data());
      }
      const CodeSumTask task{.format = CodeFormat::kBits,
                             .payloads = set.pointers,
                             .payload_bytes = set.bytes,
                             .num_workers = static_cast<int>(kVoters),
                             .count = n,
                             .scales = state->scale.data(),
                             .out = set.out.data()};
      works.emplace_back([=, &set, &stream] { set.counter.run({&task, 1}, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<float> found(static_cast<std::size_t>(n));
    copy<float>(state->sets.back()->out.span(), std::span(found), stream);
    stream.synchronize();
    return votes_are_right(state->signs, n, kScale, found.data());
  };
  return subject;
}

}  // namespace

void register_cuda_votes() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      register_cuda_subject(cuda_bench_name("votes8", "f32", n), 5.0 * static_cast<double>(n), residency,
                            [=] { return votes(n); });
    }
  }
}

}  // namespace terngrad::bench
