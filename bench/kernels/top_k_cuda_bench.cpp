// Choosing the elements of largest magnitude and writing their messages on a GPU, and adding up eight of them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/sparse_check.h"
#include "bench/typed_gradient.h"
#include "kernels/runtime/copy.h"
#include "kernels/sparse/sparse_encoder.h"
#include "kernels/sparse/sparse_sum.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kWorkers = 8;

struct Message {
  SparseShape shape;
  Buffer<std::uint64_t> words;

  Message(const SparseShape& its, const Device& device) : shape(its), words((max_sparse_bytes(its) + 7) / 8, device) {}
  std::uint8_t* payload() { return reinterpret_cast<std::uint8_t*>(words.data()); }
  SparseMessage sent() { return {shape, {payload(), static_cast<std::size_t>(max_sparse_bytes(shape))}}; }
};

/// @param block  elements chosen among by themselves, which are read once from memory; 0: all, which are read four
/// times
CudaSubject encode(std::int64_t n, double density, std::int64_t block) {
  struct Set {
    Buffer<float> gradient;
    Message message;
    SparseEncoder encoder{Device::cuda()};
    std::int64_t bytes = 0;
  };
  const auto sets = std::make_shared<std::vector<std::unique_ptr<Set>>>();
  const SparseShape shape = sparse_shape(n, density, block);
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = (block == 0 ? 16.0 : 4.0) * static_cast<double>(n) + static_cast<double>(max_sparse_bytes(shape));
  subject.num_launches = block == 0 ? 14 : 2;  // CUB's two scans are two each
  subject.prepare = [=](Stream& stream, int num_sets) {
    std::vector<std::function<void()>> works;
    for (Buffer<float>& gradient : gradients_on(stream, n, num_sets)) {
      sets->push_back(std::make_unique<Set>(Set{std::move(gradient), Message(shape, stream.device())}));
      Set& set = *sets->back();
      works.emplace_back([&set, &stream] {
        const SparseEncodeTask task{
            .values = set.gradient.data(), .shape = set.message.shape, .payload = set.message.payload()};
        set.encoder.run({&task, 1}, {&set.bytes, 1}, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>((max_sparse_bytes(shape) + 7) / 8));
    copy<std::uint64_t>(sets->back()->message.words.span(), std::span(words), stream);
    stream.synchronize();
    const std::span<const float> values(typed_gradient(ElementType::kFloat32, n).values, static_cast<std::size_t>(n));
    return holds(shape, {reinterpret_cast<const std::uint8_t*>(words.data()), 8 * words.size()},
                 kept_elements(shape, values));
  };
  return subject;
}

/// Messages of one gradient, moved by some elements for each worker.
CudaSubject sum(std::int64_t n, double density) {
  struct Set {
    std::vector<Message> messages;
    std::vector<SparseMessage> sent;
    Buffer<float> out;
    SparseSummer summer{Device::cuda()};
  };
  struct State {
    std::vector<std::unique_ptr<Set>> sets;
    std::vector<float> expected;
  };
  const auto state = std::make_shared<State>();
  const SparseShape shape = sparse_shape(n, density, 0);
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n) + static_cast<double>(kWorkers * max_sparse_bytes(shape));
  subject.prepare = [=](Stream& stream, int num_sets) {
    const float* const values = typed_gradient(ElementType::kFloat32, n + kWorkers).values;
    state->expected.assign(static_cast<std::size_t>(n), 0);
    std::vector<std::vector<std::uint64_t>> payloads;
    for (std::int64_t worker = 0; worker < kWorkers; ++worker) {
      std::vector<std::uint64_t>& words = payloads.emplace_back((max_sparse_bytes(shape) + 7) / 8);
      std::int64_t bytes = 0;
      const SparseEncodeTask task{
          .values = values + worker, .shape = shape, .payload = reinterpret_cast<std::uint8_t*>(words.data())};
      Stream cpu(Device::cpu(), 1);
      SparseEncoder().run({&task, 1}, {&bytes, 1}, cpu);
      add_sparse(shape, {task.payload, static_cast<std::size_t>(bytes)}, 0, state->expected);
    }
    for (float& value : state->expected) value *= 1.0f / kWorkers;
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      Set& set = *state->sets.emplace_back(std::make_unique<Set>());
      set.out = Buffer<float>(n, stream.device());
      for (const std::vector<std::uint64_t>& words : payloads) {
        Message& message = set.messages.emplace_back(shape, stream.device());
        copy<std::uint64_t>(words, message.words.span(), stream);
        set.sent.push_back(message.sent());
      }
      works.emplace_back([&set, &stream] {
        const SparseSumTask task{.workers = set.sent, .scale = 1.0f / kWorkers, .out = set.out.data()};
        set.summer.run({&task, 1}, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<float> found(static_cast<std::size_t>(n));
    copy<float>(state->sets.back()->out.span(), std::span(found), stream);
    stream.synchronize();
    return found == state->expected;
  };
  return subject;
}

}  // namespace

void register_cuda_top_k() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      const double bytes = 5.0 * static_cast<double>(n);
      for (const char* const percent : {"0.1", "1", "10"}) {
        const double density = std::stod(percent) / 100;
        register_cuda_subject(cuda_bench_name(std::string("top_k_") + percent + "%", "f32", n), bytes, residency,
                              [=] { return encode(n, density, 0); });
      }
      register_cuda_subject(cuda_bench_name("top_k_blocks_1%", "f32", n), bytes, residency,
                            [=] { return encode(n, 0.01, 4096); });
      register_cuda_subject(cuda_bench_name("sparse_sum8_1%", "f32", n), bytes, residency,
                            [=] { return sum(n, 0.01); });
    }
  }
}

}  // namespace terngrad::bench
