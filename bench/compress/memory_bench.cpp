// What a worker's memory adds to an exchange: the gradient it compensates, and what it keeps of a message.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
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

Subject subject_of(std::int64_t n, double bytes_per_element, const std::function<void()>& run) {
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = bytes_per_element * static_cast<double>(n);
  subject.prepare = [=](Stream&) { return run; };
  return subject;
}

/// Reads state and gradient, writes what is encoded: 12 bytes an element; with dgc 20, for residual, velocity and the
/// velocity that is to come.
Subject compensation(std::int64_t n, const std::string& codec, const char* kept, double bytes, int threads) {
  const auto state = std::make_shared<State>(n, codec, threads, kept);
  Subject subject = subject_of(n, bytes, [=] { state->memory->compensate(state->segments, state->stream); });
  // State begins with zeros.
  subject.check = [=] {
    const float* const encoded = state->memory->encoded()[0].tensor(0);
    return state->all_are(encoded, [&](std::int64_t i) { return 0.0f + state->values.data()[i]; });
  };
  return subject;
}

/// Reads what was encoded and its codes, writes the residual; with dgc reads and writes a velocity too.
Subject commit(std::int64_t n, const std::string& codec, const char* kept, double bytes, int threads) {
  const auto state = std::make_shared<State>(n, codec, threads, kept);
  Subject subject = subject_of(n, bytes, [=] {
    for (const MemoryTables& tables : state->memory->kept()) {
      state->exchange->update_memory(tables.what, tables.from, tables.into);
    }
  });
  subject.check = [=] {
    std::vector<float> sent(static_cast<std::size_t>(n));
    state->exchange->decode_local(0, 0, sent);
    const auto is_kept = [&](const MemoryTables& tables) {
      const float* const from = tables.from[0].tensor(0);
      return state->all_are(tables.into[0].tensor(0), [&](std::int64_t i) {
        const float said = sent[static_cast<std::size_t>(i)];
        if (tables.what == MemoryUpdate::kMasked) return said == 0 ? from[i] : 0.0f;
        return from[i] - said;
      });
    };
    return std::ranges::all_of(state->memory->kept(), is_kept);
  };
  return subject;
}

}  // namespace

void register_memory() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      const auto add = [&](const char* name, const auto& make) {
        register_subject(bench_name(name, "f32", n, threads), n, threads, make);
      };
      add("memory_compensate", [=] { return compensation(n, "ternary", "ef", 12, threads); });
      add("memory_commit_t2",
          [=] { return commit(n, "ternary:rounding=nearest,clip_factor=1.22", "ef", 8.25, threads); });
      add("memory_commit_q4", [=] { return commit(n, "qsgd:bits=4", "ef", 8.5, threads); });
      add("memory_commit_bf16", [=] { return commit(n, "bf16", "ef", 10, threads); });
      add("memory_accumulate_dgc", [=] { return compensation(n, "topk:density=0.01", "dgc", 20, threads); });
      add("memory_commit_dgc", [=] { return commit(n, "topk:density=0.01", "dgc", 16, threads); });
    }
  }
}

}  // namespace terngrad::bench
