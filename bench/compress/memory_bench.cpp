// What a worker's memory adds to an exchange: the gradient it compensates, and what it keeps of a message.
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "compress/exchange/memory_all_reduce.h"

namespace terngrad::bench {
namespace {

struct State {
  State(std::int64_t n, const std::string& codec, int threads) : stream(Device::cpu(), threads) {
    layout.add("gradient", {n});
    values = make_gradient(layout.flat_elements(), 2);
    gradient_table = TensorTable(layout, values.data());
    mean = Buffer<float>(layout.flat_elements());
    CompressedAllReduceOptions options;
    options.codecs.codec = codec;
    options.num_threads = threads;
    const WorkerGroup one = make_worker_group(1, make_self_communicator());
    exchange = std::make_unique<BucketedAllReduce>(layout, one, options, Buckets{{0}});
    memory = std::make_unique<WorkerMemory>(layout, exchange->plan(), parse_memory("ef"), 1);
    const auto encoded = memory->begin({&gradient_table, 1});
    memory->compensate(segments, stream);
    exchange->exchange(encoded, TensorTable(layout, mean.data()), 1);
  }

  bool all_are(const float* found, const auto& expected) const {
    const std::int64_t n = layout.segment(0).num_elements;
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(expected(i))) return false;
    }
    return true;
  }

  Layout layout;
  Stream stream;
  Buffer<float> values, mean;
  TensorTable gradient_table;
  std::unique_ptr<BucketedAllReduce> exchange;
  std::unique_ptr<WorkerMemory> memory;
  const std::vector<int> segments = {0};
};

/// Reads state and gradient, writes what is encoded: 12 bytes an element.
Subject compensation(std::int64_t n, int threads) {
  const auto state = std::make_shared<State>(n, "ternary", threads);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 12.0 * static_cast<double>(n);
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] { state->memory->compensate(state->segments, state->stream); };
  };
  // State begins with zeros.
  subject.check = [=] {
    const float* const encoded = state->memory->encoded()[0].tensor(0);
    return state->all_are(encoded, [&](std::int64_t i) { return 0.0f + state->values.data()[i]; });
  };
  return subject;
}

/// Reads what was encoded and its codes, writes the residual.
Subject commit(std::int64_t n, const std::string& codec, double code_bytes, int threads) {
  const auto state = std::make_shared<State>(n, codec, threads);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = (8.0 + code_bytes) * static_cast<double>(n);
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] { state->exchange->keep(state->memory->kept(), state->memory->encoded(), state->memory->states()); };
  };
  subject.check = [=] {
    std::vector<float> sent(static_cast<std::size_t>(n));
    state->exchange->decode_local(0, 0, sent);
    const float* const encoded = state->memory->encoded()[0].tensor(0);
    return state->all_are(state->memory->states()[0].tensor(0),
                          [&](std::int64_t i) { return encoded[i] - sent[static_cast<std::size_t>(i)]; });
  };
  return subject;
}

}  // namespace

void register_memory() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      register_subject(bench_name("memory_compensate", "f32", n, threads), n, threads,
                       [=] { return compensation(n, threads); });
      register_subject(bench_name("memory_commit_t2", "f32", n, threads), n, threads,
                       [=] { return commit(n, "ternary:rounding=nearest,clip_factor=1.22", 0.25, threads); });
      register_subject(bench_name("memory_commit_q4", "f32", n, threads), n, threads,
                       [=] { return commit(n, "qsgd:bits=4", 0.5, threads); });
      register_subject(bench_name("memory_commit_bf16", "f32", n, threads), n, threads,
                       [=] { return commit(n, "bf16", 2, threads); });
    }
  }
}

}  // namespace terngrad::bench
