// Sums of the codes of eight messages.
#include "kernels/codes/code_sum.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_messages.h"
#include "bench/cuda_subjects.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr int kMessages = 8;
constexpr float kScale = kMessageScaler / kMessages;

struct Set {
  CudaMessages messages;
  std::vector<const std::uint8_t*> pointers;
  Buffer<float> out;
  CodeSummer summer{Device::cuda()};
};

CudaSubject code_sums(std::int64_t n, CodeFormat format) {
  struct State {
    std::vector<std::unique_ptr<Set>> sets;
    Buffer<float> scale{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  // The same on both backends, except for where its memory is.
  CodeSumTask common;
  common.format = format;
  common.num_workers = format == CodeFormat::kLanes ? kMessages : 1;
  common.count = n;
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n) + message_bytes(n, format, kMessages);
  subject.prepare = [=](Stream& stream, int num_sets) {
    const std::vector<Buffer<float>> gradient = gradients_on(stream, n, 1);
    copy<float>({&kScale, 1}, state->scale.span(), stream);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      state->sets.push_back(std::make_unique<Set>());
      Set& set = *state->sets.back();
      set.messages = make_messages(gradient.front(), format, kMessages, stream);
      set.pointers = set.messages.pointers();
      set.out = Buffer<float>(n, stream.device());
      CodeSumTask task = common;
      task.payloads = set.pointers;
      task.payload_bytes = set.messages.bytes;
      task.scales = state->scale.data();
      task.out = set.out.data();
      works.emplace_back([=, &set, &stream] { set.summer.run({&task, 1}, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    const Set& set = *state->sets.back();
    std::vector<float> found(static_cast<std::size_t>(n));
    copy<float>(set.out.span(), std::span(found), stream);
    const HostMessages messages = on_host(set.messages, n, format, stream);
    std::vector<const std::uint8_t*> pointers;
    for (const PackedCodes& codes : messages.codes) pointers.push_back(codes.payload.data());
    std::vector<float> expected(found.size());
    CodeSumTask task = common;
    task.payloads = pointers;
    task.payload_bytes = set.messages.bytes;
    task.scales = &kScale;
    task.out = expected.data();
    Stream cpu;
    aggregate_code_sums({&task, 1}, cpu);
    return found == expected;
  };
  return subject;
}

}  // namespace

void register_cuda_aggregate() {
  for (const CodeFormat format :
       {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kLanes, CodeFormat::kQ4, CodeFormat::kQ8}) {
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        // Of ternary messages, which differ little, those of t2.
        const bool is_levels = format == CodeFormat::kQ4 || format == CodeFormat::kQ8;
        const std::int64_t message = payload_bytes(is_levels ? format : CodeFormat::kT2, n, 1);
        register_cuda_subject(cuda_bench_name("aggregate8_" + to_string(format), "f32", n),
                              4.0 * static_cast<double>(n) + kMessages * static_cast<double>(message), residency,
                              [=] { return code_sums(n, format); });
      }
    }
  }
}

}  // namespace terngrad::bench
