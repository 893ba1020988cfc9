// The cost of a worker's memory in an exchange: compensation of the gradient, and the update after a message.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/gradients.h"
#include "bench/rows.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_clock.h"
#include "compress/exchange/part_exchange.h"
#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "compress/transport/exchange_peers.h"

namespace terngrad::bench {
namespace {

struct State {
  State(std::int64_t n, const std::string& codec, const char* kept, const Stream& on)
      : layout(layout_of(n)),
        plan(layout, codecs_of(codec)),
        stream(on),
        values(make_gradient(layout.flat_elements(), 2)),
        mean(layout.flat_elements()),
        gradient(layout, values.data()),
        flags(OnNonfinite::kStop, stream),
        shared(layout, plan, MemoryKind::kNone),
        memory(layout, plan, parse_memory(kept), 1) {
    const ExchangePeers one = make_worker_group(1, make_self_communicator());
    exchange = make_part_exchange(layout, plan, {one, {}, stream, flags, shared}, {});
    compensate();
    PartClock clock(stream.device(), /*is_on=*/false);
    flags.begin_step(stream);
    exchange->run(encoded, TensorTable(layout, mean.data()), {1, nullptr}, stream, clock);
  }

  static Layout layout_of(std::int64_t n) {
    Layout layout;
    layout.add("gradient", {n});
    return layout;
  }
  static CodecPlanOptions codecs_of(const std::string& codec) {
    CodecPlanOptions options;
    options.codec = codec;
    return options;
  }
  void compensate() { encoded = memory.compensate(layout, segments, {&gradient, 1}, {1, nullptr}, stream); }
  std::vector<MemoryTables> kept() const { return memory.kept(layout, segments, encoded); }
  bool all_are(const float* found, const auto& expected) const {
    const std::int64_t n = layout.segment(0).num_elements;
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(expected(i))) return false;
    }
    return true;
  }

  /// True if the residual of loco:decay=0 is that of the last step to half a code of its block.
  bool is_in_8_bits(const float* from, const std::vector<float>& sent) {
    std::vector<float> found(sent.size());
    memory.read_state(0, 0, found, stream);
    for (std::size_t begin = 0; begin < sent.size(); begin += kResidualBlock) {
      const std::size_t end = std::min(begin + kResidualBlock, sent.size());
      float max = 0;
      float error = 0;
      for (std::size_t i = begin; i < end; ++i) {
        max = std::max(max, std::fabs(from[i] - sent[i]));
        error = std::max(error, std::fabs(from[i] - sent[i] - found[i]));
      }
      if (error > max / 253) return false;
    }
    return true;
  }

  const std::vector<int> segments = {0};
  Layout layout;
  CodecPlan plan;
  Stream stream;
  Buffer<float> values, mean;
  TensorTable gradient;
  NonfiniteFlags flags;
  SharedState shared;
  WorkerMemory memory;
  std::vector<TensorTable> encoded;
  std::unique_ptr<PartExchange> exchange;
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
      return state->all_are(state->encoded[0].tensor(0),
                            [&](std::int64_t i) { return 0.0f + state->values.data()[i]; });
    };
    return Work{.run = [=] { state->compensate(); }, .check = check};
  });
}

/// Reads what was encoded and its codes, writes the residual; with dgc reads and writes a velocity too.
Subject commit(std::int64_t n, const std::string& codec, const char* kept, double bytes) {
  return subject_of(n, bytes, [=](Stream& stream) {
    const auto state = std::make_shared<State>(n, codec, kept, stream);
    const auto run = [=] {
      for (const MemoryTables& tables : state->kept()) {
        state->exchange->update_memory(tables.what, tables.from, tables.into, state->stream);
      }
    };
    const auto check = [=] {
      std::vector<float> sent(static_cast<std::size_t>(n));
      state->exchange->decode_local(0, 0, sent, state->stream);
      const auto is_kept = [&](const MemoryTables& tables) {
        const float* const from = tables.from[0].tensor(0);
        if (tables.what.kind == MemoryUpdateKind::kAveraged) return state->is_in_8_bits(from, sent);
        return state->all_are(tables.into[0].tensor(0), [&](std::int64_t i) {
          const float said = sent[static_cast<std::size_t>(i)];
          if (tables.what.kind == MemoryUpdateKind::kMasked) return said == 0 ? from[i] : 0.0f;
          return from[i] - said;
        });
      };
      return std::ranges::all_of(state->kept(), is_kept);
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
  add("memory_compensate_loco", compensation, "ternary", "loco", 9.0625);
  add("memory_commit_loco", commit, "qsgd:bits=4", "loco:decay=0", 6.625);
});

}  // namespace
}  // namespace terngrad::bench
