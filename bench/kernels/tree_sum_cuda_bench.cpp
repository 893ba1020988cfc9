// Tree sums of eight workers: of floating-point values, and of codes with a scaler for each worker.
#include "kernels/codes/tree_sum.h"

#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_messages.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "kernels/runtime/copy.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;
/// Workers' floating-point values are the same gradient, each from this many elements further on.
constexpr std::int64_t kShift = 64;
/// Of each worker's codes.
constexpr float kScalers[kWorkers] = {0.021f, 0.022f, 0.023f, 0.024f, 0.025f, 0.026f, 0.027f, 0.028f};

/// Leaves that are codes, as the messages which hold them.
TernaryFormat code_format(LeafFormat format) {
  switch (format) {
    case LeafFormat::kT5:
      return TernaryFormat::kT5;
    case LeafFormat::kTMask:
      return TernaryFormat::kTMask;
    default:
      return TernaryFormat::kT2;
  }
}

bool is_codes(LeafFormat format) { return format != LeafFormat::kFloat32 && format != LeafFormat::kBfloat16; }

/// The leaves of all workers on a device, of which only one kind of members is in use.
struct Leaves {
  std::vector<Buffer<float>> floats;
  std::vector<Buffer<std::uint16_t>> halves;
  CudaMessages messages;
  Buffer<float> scalers;
  std::vector<MeanLeaf> leaves;
};

template <class T>
std::span<const std::uint8_t> bytes_of(const Buffer<T>& buffer) {
  const auto bytes = std::as_bytes(buffer.span());
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// @param gradient  [n + kWorkers * kShift] on the stream's device
void make_floats(Leaves& made, LeafFormat format, std::span<const float> gradient, std::int64_t n, Stream& stream) {
  for (std::size_t k = 0; k < kWorkers; ++k) {
    const std::span<const float> values = gradient.subspan(k * kShift, static_cast<std::size_t>(n));
    if (format == LeafFormat::kFloat32) {
      made.floats.emplace_back(n, stream.device());
      copy<float>(values, made.floats.back().span(), stream);
      made.leaves.push_back({bytes_of(made.floats.back())});
    } else {
      made.halves.emplace_back(n, stream.device());
      encode_bfloat16(values, made.halves.back().span(), stream);
      made.leaves.push_back({bytes_of(made.halves.back())});
    }
  }
}

void make_codes(Leaves& made, LeafFormat format, const Buffer<float>& gradient, Stream& stream) {
  made.messages = make_messages(gradient, code_format(format), kWorkers, stream);
  made.scalers = Buffer<float>(kWorkers, stream.device());
  copy<float>(kScalers, made.scalers.span(), stream);
  const std::vector<const std::uint8_t*> pointers = made.messages.pointers();
  for (std::size_t k = 0; k < kWorkers; ++k) {
    made.leaves.push_back({{pointers[k], static_cast<std::size_t>(made.messages.bytes[k])}, made.scalers.data() + k});
  }
}

/// The mean of the leaves that `made` has on a GPU, by the CPU backend.
std::vector<float> expected_mean(const Leaves& made, MeanTask task, Stream& stream) {
  Stream cpu;
  Leaves leaves;
  HostMessages messages;
  if (is_codes(task.format)) {
    messages = on_host(made.messages, task.count, code_format(task.format), stream);
    for (std::size_t k = 0; k < kWorkers; ++k) leaves.leaves.push_back({messages.codes[k].payload, kScalers + k});
  } else {
    const std::int64_t length = task.count + kWorkers * kShift;
    make_floats(leaves, task.format, {gradient(length), static_cast<std::size_t>(length)}, task.count, cpu);
  }
  std::vector<float> mean(static_cast<std::size_t>(task.count));
  task.workers = leaves.leaves;
  task.out = mean.data();
  TreeSummer().run({&task, 1}, cpu);
  return mean;
}

CudaSubject tree_sum(std::int64_t n, LeafFormat format) {
  struct Set {
    Leaves made;
    Buffer<float> out;
    TreeSummer summer{Device::cuda()};
  };
  const auto sets = std::make_shared<std::vector<std::unique_ptr<Set>>>();
  const MeanTask common{.format = format, .count = n, .scale = 1.0f / kWorkers};
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * subject.elements;
  subject.bytes += is_codes(format) ? message_bytes(n, code_format(format), kWorkers)
                                    : (format == LeafFormat::kFloat32 ? 4.0 : 2.0) * kWorkers * subject.elements;
  subject.prepare = [=](Stream& stream, int num_sets) {
    const std::int64_t length = is_codes(format) ? n : n + kWorkers * kShift;
    const Buffer<float> gradient = std::move(gradients_on(stream, length, 1).front());
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      sets->push_back(std::make_unique<Set>());
      Set& set = *sets->back();
      if (is_codes(format)) {
        make_codes(set.made, format, gradient, stream);
      } else {
        make_floats(set.made, format, gradient.span(), n, stream);
      }
      set.out = Buffer<float>(n, stream.device());
      MeanTask task = common;
      task.workers = set.made.leaves;
      task.out = set.out.data();
      works.emplace_back([=, &set, &stream] { set.summer.run({&task, 1}, stream); });
    }
    stream.synchronize();
    return works;
  };
  subject.check = [=](Stream& stream) {
    const Set& set = *sets->back();
    std::vector<float> found(static_cast<std::size_t>(n));
    copy<float>(set.out.span(), std::span(found), stream);
    return expected_mean(set.made, common, stream) == found;
  };
  return subject;
}

}  // namespace

void register_cuda_tree_sum() {
  for (const LeafFormat format :
       {LeafFormat::kFloat32, LeafFormat::kBfloat16, LeafFormat::kT2, LeafFormat::kT5, LeafFormat::kTMask}) {
    // Under the names of the CPU's benchmarks where it has them.
    const std::string name = (is_codes(format) ? "tree_sum8_" : "aggregate8_") + to_string(format);
    const double leaf_bytes = format == LeafFormat::kFloat32 ? 4 : format == LeafFormat::kBfloat16 ? 2 : 0.25;
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        register_cuda_subject(cuda_bench_name(name, "f32", n), (4 + kWorkers * leaf_bytes) * static_cast<double>(n),
                              residency, [=] { return tree_sum(n, format); });
      }
    }
  }
}

}  // namespace terngrad::bench
