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
  State(std::int64_t n, const std::string& codec, int threads, const char* kept = "ef")
      : stream(Device::cpu(), threads) {
    layout.add("gradient", {n});
    values = make_gradient(layout.flat_elements(), 2);
    gradient_table = TensorTable(layout, values.data());
    mean = Buffer<float>(layout.flat_elements());
    CompressedAllReduceOptions options;
    options.codecs.codec = codec;
    options.num_threads = threads;
    const WorkerGroup one = make_worker_group(1, make_self_communicator());
    exchange = std::make_unique<BucketedAllReduce>(layout, one, options, Buckets{{0}});
    memory = std::make_unique<WorkerMemory>(layout, exchange->plan(), parse_memory(kept), 1);
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
    return [=] {
      for (const KeptTables& tables : state->memory->kept()) {
        state->exchange->keep(tables.what, tables.from, tables.into);
      }
    };
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

constexpr const char* kSparse = "topk:density=0.01";

/// Reads residual, velocity and gradient, writes the velocity that is to come and what is encoded: 20 bytes an element.
Subject accumulation(std::int64_t n, int threads) {
  const auto state = std::make_shared<State>(n, kSparse, threads, "dgc");
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 20.0 * static_cast<double>(n);
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] { state->memory->compensate(state->segments, state->stream); };
  };
  // State begins with zeros.
  subject.check = [=] {
    return state->all_are(state->memory->encoded()[0].tensor(0),
                          [&](std::int64_t i) { return 0.0f + state->values.data()[i]; });
  };
  return subject;
}

/// Reads what was encoded and the velocity, writes residual and velocity: 16 bytes an element.
Subject masked_commit(std::int64_t n, int threads) {
  const auto state = std::make_shared<State>(n, kSparse, threads, "dgc");
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 16.0 * static_cast<double>(n);
  subject.prepare = [=](Stream&) -> std::function<void()> {
    return [=] {
      for (const KeptTables& tables : state->memory->kept()) {
        state->exchange->keep(tables.what, tables.from, tables.into);
      }
    };
  };
  subject.check = [=] {
    std::vector<float> sent(static_cast<std::size_t>(n));
    state->exchange->decode_local(0, 0, sent);
    const std::vector<KeptTables> kept = state->memory->kept();
    const auto said = [&](std::int64_t i) { return sent[static_cast<std::size_t>(i)]; };
    const float* const encoded = kept[0].from[0].tensor(0);
    const float* const velocity = kept[1].from[0].tensor(0);
    return state->all_are(kept[0].into[0].tensor(0), [&](std::int64_t i) { return encoded[i] - said(i); }) &&
           state->all_are(kept[1].into[0].tensor(0), [&](std::int64_t i) { return said(i) == 0 ? velocity[i] : 0.0f; });
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
      register_subject(bench_name("memory_accumulate_dgc", "f32", n, threads), n, threads,
                       [=] { return accumulation(n, threads); });
      register_subject(bench_name("memory_commit_dgc", "f32", n, threads), n, threads,
                       [=] { return masked_commit(n, threads); });
    }
  }
}

}  // namespace terngrad::bench
