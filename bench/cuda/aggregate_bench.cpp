// Aggregation of eight messages on a GPU: sums of codes with a shared scale, and tree sums of floats and of codes with
// scalers of their own.
#include "kernels/aggregate.h"

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "kernels/bfloat16.h"
#include "kernels/copy.h"
#include "kernels/ternarize.h"
#include "kernels/tree_sum.h"

namespace terngrad::bench {
namespace {

constexpr std::size_t kMessages = 8;
constexpr float kScaler = 0.025f;
constexpr float kScale = 0.025f / kMessages;

/// Eight messages in host memory, and what they take.
struct Messages {
  std::vector<Buffer<std::uint64_t>> words;
  std::vector<std::int64_t> bytes;

  double total_bytes() const {
    double total = 0;
    for (const std::int64_t b : bytes) total += static_cast<double>(b);
    return total;
  }
  std::span<const std::uint8_t> payload(std::size_t k) const {
    return {reinterpret_cast<const std::uint8_t*>(words[k].data()), static_cast<std::size_t>(bytes[k])};
  }
};

Messages ternary_messages(std::int64_t n, TernaryFormat format) {
  Messages messages;
  Stream cpu;
  for (std::size_t k = 0; k < kMessages; ++k) {
    messages.words.push_back(zeros<std::uint64_t>((payload_bytes(format, n, 1) + 7) / 8));
    const TernarizeTask task{.gradient = gradient(n),
                             .count = n,
                             .scalers = &kScaler,
                             .payload = reinterpret_cast<std::uint8_t*>(messages.words.back().data())};
    const DrawKey key{1, 1, static_cast<std::uint32_t>(k), DrawPurpose::kTernarize};
    ternarize({&task, 1}, {.format = format}, key, {&messages.bytes.emplace_back(), 1}, cpu);
  }
  return messages;
}

/// Each worker's values are those of a gradient, from another place on.
Messages float_messages(std::int64_t n, LeafFormat format) {
  Messages messages;
  const std::int64_t element_bytes = format == LeafFormat::kFloat32 ? 4 : 2;
  for (std::size_t k = 0; k < kMessages; ++k) {
    messages.bytes.push_back(n * element_bytes);
    messages.words.push_back(zeros<std::uint64_t>((n * element_bytes + 7) / 8));
    auto* bytes = reinterpret_cast<std::uint8_t*>(messages.words.back().data());
    const auto shift = static_cast<std::int64_t>(k) * n / static_cast<std::int64_t>(kMessages);
    for (std::int64_t i = 0; i < n; ++i) {
      const float value = gradient(n)[(i + shift) % n];
      const std::uint16_t half = to_bfloat16(value);
      const void* element = format == LeafFormat::kFloat32 ? static_cast<const void*>(&value) : &half;
      std::memcpy(bytes + i * element_bytes, element, static_cast<std::size_t>(element_bytes));
    }
  }
  return messages;
}

/// Messages and a mean on the GPU.
struct Set {
  std::vector<Buffer<std::uint64_t>> words;
  std::vector<const std::uint8_t*> payloads;
  std::vector<MeanLeaf> leaves;
  Buffer<float> mean;
  CodeSummer codes{Device::cuda()};
  TreeSummer tree{Device::cuda()};

  Set(const Messages& messages, const float* scaler, std::int64_t n, Stream& stream) : mean(n, Device::cuda()) {
    for (std::size_t k = 0; k < kMessages; ++k) {
      words.emplace_back(messages.words[k].num_elements(), Device::cuda());
      copy<std::uint64_t>(messages.words[k].span(), words.back().span(), stream);
      payloads.push_back(reinterpret_cast<const std::uint8_t*>(words.back().data()));
      leaves.push_back({{payloads.back(), static_cast<std::size_t>(messages.bytes[k])}, scaler});
    }
  }
};

struct State {
  Messages messages;
  Buffer<float> factor{1, Device::cuda()};  // a scale or scaler
  std::vector<std::unique_ptr<Set>> sets;
};

/// Whether the last set's mean is the CPU's, where `run_on_cpu` writes it.
bool is_the_cpus(const State& state, std::int64_t n, Stream& stream,
                 const std::function<void(float* out, Stream& cpu)>& run_on_cpu) {
  const auto count = static_cast<std::size_t>(n);
  std::vector<float> found(count);
  std::vector<float> expected(count);
  copy<float>(state.sets.back()->mean.span(), std::span(found), stream);
  stream.synchronize();
  Stream cpu;
  run_on_cpu(expected.data(), cpu);
  return std::memcmp(found.data(), expected.data(), count * sizeof(float)) == 0;
}

CudaSubject code_sums(std::int64_t n, TernaryFormat format) {
  const auto state = std::make_shared<State>();
  state->messages = ternary_messages(n, format);
  const auto task_of = [=](std::span<const std::uint8_t* const> payloads, const float* scale, float* out) {
    return CodeSumTask{.format = format,
                       .payloads = payloads,
                       .payload_bytes = state->messages.bytes,
                       .count = n,
                       .scales = scale,
                       .out = out};
  };
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = state->messages.total_bytes() + 4.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream, int num_sets) {
    copy<float>({&kScale, 1}, state->factor.span(), stream);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      state->sets.push_back(std::make_unique<Set>(state->messages, nullptr, n, stream));
      Set& set = *state->sets.back();
      works.emplace_back([=, &set, &stream] {
        const CodeSumTask task = task_of(set.payloads, state->factor.data(), set.mean.data());
        set.codes.run({&task, 1}, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    return is_the_cpus(*state, n, stream, [&](float* out, Stream& cpu) {
      std::vector<const std::uint8_t*> payloads;
      for (std::size_t k = 0; k < kMessages; ++k) payloads.push_back(state->messages.payload(k).data());
      const CodeSumTask task = task_of(payloads, &kScale, out);
      aggregate_code_sums({&task, 1}, cpu);
    });
  };
  return subject;
}

CudaSubject tree_sums(std::int64_t n, LeafFormat format) {
  const auto state = std::make_shared<State>();
  const bool is_float = format == LeafFormat::kFloat32 || format == LeafFormat::kBfloat16;
  state->messages = is_float ? float_messages(n, format) : ternary_messages(n, TernaryFormat::kT2);
  const auto task_of = [=](std::span<const MeanLeaf> leaves, float* out) {
    return MeanTask{.format = format, .workers = leaves, .count = n, .scale = 1.0f / kMessages, .out = out};
  };
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = state->messages.total_bytes() + 4.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream, int num_sets) {
    copy<float>({&kScaler, 1}, state->factor.span(), stream);
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      state->sets.push_back(std::make_unique<Set>(state->messages, state->factor.data(), n, stream));
      Set& set = *state->sets.back();
      works.emplace_back([=, &set, &stream] {
        const MeanTask task = task_of(set.leaves, set.mean.data());
        set.tree.run({&task, 1}, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    return is_the_cpus(*state, n, stream, [&](float* out, Stream& cpu) {
      std::vector<MeanLeaf> leaves;
      for (std::size_t k = 0; k < kMessages; ++k) leaves.push_back({state->messages.payload(k), &kScaler});
      const MeanTask task = task_of(leaves, out);
      TreeSummer().run({&task, 1}, cpu);
    });
  };
  return subject;
}

}  // namespace

void register_cuda_aggregate() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      const auto elements = static_cast<double>(n);
      for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask}) {
        register_cuda_subject(cuda_bench_name("aggregate8_" + to_string(format), "f32", n), 6.0 * elements, residency,
                              [=] { return code_sums(n, format); });
      }
      for (const LeafFormat format : {LeafFormat::kFloat32, LeafFormat::kBfloat16, LeafFormat::kT2}) {
        const double leaf_bytes = format == LeafFormat::kFloat32 ? 4 : format == LeafFormat::kBfloat16 ? 2 : 0.25;
        register_cuda_subject(cuda_bench_name("tree_sum8_" + to_string(format), "f32", n),
                              (4 + kMessages * leaf_bytes) * elements, residency, [=] { return tree_sums(n, format); });
      }
    }
  }
}

}  // namespace terngrad::bench
