// The cost of a worker's memory in an exchange: compensation of the gradient, and the update after a message.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/gradients.h"
#include "bench/rows.h"
#include "compress/exchange/memory_all_reduce.h"

namespace terngrad::bench {
namespace {

struct State {
  State(std::int64_t n, const std::string& codec, const char* kept, Stream& stream) {
    layout.add("gradient", {n});
    values = make_gradient(layout.flat_elements(), 2);
    gradient_table = TensorTable(layout, values.data());
    mean = Buffer<float>(layout.flat_elements());
    CompressedAllReduceOptions options;
    options.codecs.codec = codec;
    options.num_threads = stream.num_threads();
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
  Buffer<float> values, mean;
  TensorTable gradient_table;
  std::unique_ptr<BucketedAllReduce> exchange;
  std::unique_ptr<WorkerMemory> memory;
  const std::vector<int> segments = {0};
};

Subject subject_of(std::int64_t n, double bytes_per_element, std::function<Work(Stream& stream)> prepare) {
  const auto elements = static_cast<double>(n);
  return {.bytes = bytes_per_element * elements, .elements = elements, .prepare = std::move(prepare)};
}

/// Reads state and gradient, writes what is encoded: 12 bytes an element; with dgc 20, for residual, velocity and the
/// velocity that is to come.
Subject compensation(std::int64_t n, const std::string& codec, const char* kept, double bytes) {
  return subject_of(n, bytes, [=](Stream& stream) {
    const auto state = std::make_shared<State>(n, codec, kept, stream);
    // State begins with zeros.
    const auto check = [=] {
      const float* const encoded = state->memory->encoded()[0].tensor(0);
      return state->all_are(encoded, [&](std::int64_t i) { return 0.0f + state->values.data()[i]; });
    };
    return Work{.run = [=, &stream] { state->memory->compensate(state->segments, stream); }, .check = check};
  });
}

/// Reads what was encoded and its codes, writes the residual; with dgc reads and writes a velocity too.
Subject commit(std::int64_t n, const std::string& codec, const char* kept, double bytes) {
  return subject_of(n, bytes, [=](Stream& stream) {
    const auto state = std::make_shared<State>(n, codec, kept, stream);
    const auto run = [=] {
      for (const MemoryTables& tables : state->memory->kept()) {
        state->exchange->update_memory(tables.what, tables.from, tables.into);
      }
    };
    const auto check = [=] {
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
    return Work{run, check};
  });
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](const char* name, const auto& make, const char* codec, const char* kept, double bytes) {
    rows.add(name, "f32", [=](std::int64_t n) { return make(n, codec, kept, bytes); }, {.devices = Devices::kCpu});
  };
  add("memory_compensate", compensation, "ternary", "ef", 12);
  add("memory_commit_t2", commit, "ternary:rounding=nearest,clip_factor=1.22", "ef", 8.25);
  add("memory_commit_q4", commit, "qsgd:bits=4", "ef", 8.5);
  add("memory_commit_bf16", commit, "bf16", "ef", 10);
  add("memory_accumulate_dgc", compensation, "topk:density=0.01", "dgc", 20);
  add("memory_commit_dgc", commit, "topk:density=0.01", "dgc", 16);
});

}  // namespace
}  // namespace terngrad::bench
