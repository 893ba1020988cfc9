// Choosing the elements of largest magnitude, at the densities of the literature: on the CPU alone, on a GPU with the
// writing of their messages. Adding up eight messages on a GPU.
#include "kernels/sparse/top_k.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "bench/sparse_check.h"
#include "kernels/sparse/sparse_encoder.h"
#include "kernels/sparse/sparse_sum.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kWorkers = 8;
constexpr std::int64_t kBlock = 4096;

/// Elements are read once: the ceiling is that of reading. @param block  elements chosen among by themselves; 0: all
Subject choose(std::int64_t n, double density, std::int64_t block) {
  const auto prepare = [=](Stream& stream) {
    struct State {
      std::vector<std::uint32_t> places;
      TopKSelector selector;
    };
    const auto state = std::make_shared<State>();
    const float* const values = gradient(n).data();
    const std::int64_t length = block == 0 ? n : block;
    const auto run = [=, &stream] {
      state->places.clear();
      for (std::int64_t first = 0; first < n; first += length) {
        const std::int64_t count = std::min(length, n - first);
        for (const std::uint32_t place :
             state->selector.run(values + first, ElementType::kFloat32, count, top_k_count(count, density), stream)) {
          state->places.push_back(static_cast<std::uint32_t>(first) + place);
        }
      }
    };
    const auto check = [=] {
      std::vector<float> found(static_cast<std::size_t>(n));
      for (const std::uint32_t place : state->places) found[place] = values[place];
      return found == kept_elements(sparse_shape(n, density, block), gradient(n));
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = 4 * elements, .elements = elements, .prepare = prepare};
}

std::uint8_t* payload_of(Buffer<std::uint64_t>& words) { return reinterpret_cast<std::uint8_t*>(words.data()); }

/// @param block  elements chosen among by themselves, which are read once from memory; 0: all, which are read four
/// times
Subject encode(std::int64_t n, double density, std::int64_t block) {
  const SparseShape shape = sparse_shape(n, density, block);
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<float> gradient;
      Buffer<std::uint64_t> words;
      SparseEncoder encoder;
      std::int64_t bytes = 0;
    };
    const auto set =
        std::make_shared<Set>(Set{{gradient(n), stream},
                                  Buffer<std::uint64_t>((max_sparse_bytes(shape) + 7) / 8, stream.device()),
                                  SparseEncoder(stream.device())});
    const SparseEncodeTask task{.values = set->gradient.data(), .shape = shape, .payload = payload_of(set->words)};
    const auto check = [=, &stream] {
      const std::vector<std::uint64_t> words = on_host(set->words.span(), stream);
      return holds(shape, bytes_of(std::span(words)), kept_elements(shape, gradient(n)));
    };
    return Work{.run = [=, &stream] { set->encoder.run({&task, 1}, {&set->bytes, 1}, stream); }, .check = check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = (block == 0 ? 16 : 4) * elements + static_cast<double>(max_sparse_bytes(shape)),
          .elements = elements,
          .set_bytes = 5 * elements,
          .num_launches = block == 0 ? 14 : 2,  // CUB's two scans are two each
          .prepare = prepare};
}

/// Messages of one gradient, moved by some elements for each worker, in host memory, and their mean.
struct Sent {
  std::vector<Buffer<std::uint64_t>> messages;
  std::vector<float> mean;
};

Sent encode_on_cpu(const SparseShape& shape) {
  const std::span<const float> values = gradient(shape.num_elements + kWorkers);
  Sent sent;
  sent.mean.resize(static_cast<std::size_t>(shape.num_elements));
  for (std::size_t worker = 0; worker < kWorkers; ++worker) {
    Buffer<std::uint64_t>& words = sent.messages.emplace_back(zeros<std::uint64_t>((max_sparse_bytes(shape) + 7) / 8));
    const SparseEncodeTask task{.values = values.subspan(worker).data(), .shape = shape, .payload = payload_of(words)};
    std::int64_t bytes = 0;
    Stream one(Device::cpu(), 1);
    SparseEncoder().run({&task, 1}, {&bytes, 1}, one);
    add_sparse(shape, {task.payload, static_cast<std::size_t>(bytes)}, 0, sent.mean);
  }
  for (float& value : sent.mean) value *= 1.0f / kWorkers;
  return sent;
}

Subject sum(std::int64_t n, double density) {
  const SparseShape shape = sparse_shape(n, density, 0);
  const auto sent = std::make_shared<const Sent>(encode_on_cpu(shape));
  const auto prepare = [=](Stream& stream) {
    struct Set {
      std::vector<Input<std::uint64_t>> words;
      std::vector<SparseMessage> messages;
      Buffer<float> out;
      SparseSummer summer;
    };
    const auto set =
        std::make_shared<Set>(Set{{}, {}, Buffer<float>(n, stream.device()), SparseSummer(stream.device())});
    for (const Buffer<std::uint64_t>& words : sent->messages) {
      set->words.emplace_back(words.span(), stream);
      set->messages.push_back(
          {shape, bytes_of(set->words.back().span()).first(static_cast<std::size_t>(max_sparse_bytes(shape)))});
    }
    const SparseSumTask task{.workers = set->messages, .scale = 1.0f / kWorkers, .out = set->out.data()};
    const auto run = [=, &stream] { set->summer.run({&task, 1}, stream); };
    const auto check = [=, &stream] { return on_host(set->out.span(), stream) == sent->mean; };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = 4 * elements + static_cast<double>(kWorkers * max_sparse_bytes(shape)),
          .elements = elements,
          .set_bytes = 5 * elements,
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  for (const char* const percent : {"0.1", "1", "10"}) {
    const std::string name = std::string("top_k_") + percent + "%";
    const double density = std::stod(percent) / 100;
    rows.add(name, "f32", [=](std::int64_t n) { return choose(n, density, 0); }, {.devices = Devices::kCpu});
    rows.add(name, "f32", [=](std::int64_t n) { return encode(n, density, 0); }, {.devices = Devices::kCuda});
  }
  rows.add("top_k_blocks_1%", "f32", [](std::int64_t n) { return choose(n, 0.01, kBlock); },
           {.devices = Devices::kCpu, .one_thread = true});
  rows.add("top_k_blocks_1%", "f32", [](std::int64_t n) { return encode(n, 0.01, kBlock); },
           {.devices = Devices::kCuda});
  rows.add("sparse_sum8_1%", "f32", [](std::int64_t n) { return sum(n, 0.01); }, {.devices = Devices::kCuda});
});

}  // namespace
}  // namespace terngrad::bench
