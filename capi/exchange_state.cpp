// What the workers of an exchange keep: shown and restored.
#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/arrays.h"
#include "capi/exchange.h"
#include "capi/status.h"
#include "capi/use.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

/// Of the tensors that have state, what a local worker keeps.
std::span<float> state_of(WorkerMemory& memory, const Layout& layout, int local_worker, int segment) {
  return {memory.states()[static_cast<std::size_t>(local_worker)].tensor(segment),
          static_cast<std::size_t>(layout.segment(segment).num_elements)};
}

void require_same_kind(const tg_exchange& exchange, std::uint64_t fingerprint, const std::string& memory) {
  TERNGRAD_REQUIRE(memory == exchange.memory, "the state is of memory ", memory, ", this exchange has ",
                   exchange.memory);
  const std::uint64_t ours = exchange.plan->codecs.fingerprint();
  TERNGRAD_REQUIRE(fingerprint == ours, "the state is of fingerprint ", fingerprint, ", this exchange has ", ours,
                   ": it has other tensors, codecs or workers");
}

/// Checks a state. @returns its tensor
int segment_of(tg_exchange& exchange, const tg_named_array& state) {
  const Layout& layout = exchange.plan->layout;
  deref(state.name, "the name of a state");
  require_range("the worker of a state", state.worker, 0, exchange.plan->num_workers - 1);
  const int segment = layout.find(state.name);
  const WorkerMemory* memory = exchange.parts.memory();
  TERNGRAD_REQUIRE(segment >= 0 && memory != nullptr && memory->covers(segment), "of a tensor '", state.name,
                   "' workers keep nothing");
  const std::string name = "state of worker " + std::to_string(state.worker) + ", tensor '" + state.name + "'";
  const std::int64_t count = static_cast<std::int64_t>(read_floats(state.values, name).size());
  TERNGRAD_REQUIRE(count == layout.segment(segment).num_elements, name, " has ", count, " elements, expected ",
                   layout.segment(segment).num_elements);
  return segment;
}

void require_all(tg_exchange& exchange, const std::set<std::pair<int, int>>& given) {
  const WorkerMemory* memory = exchange.parts.memory();
  const WorkerGroup& workers = exchange.parts.workers();
  if (memory == nullptr) return;
  for (int local = 0; local < workers.num_local_workers; ++local) {
    for (int segment = 0; segment < exchange.plan->layout.num_segments(); ++segment) {
      TERNGRAD_REQUIRE(!memory->covers(segment) || given.contains({workers.first_local_worker + local, segment}),
                       "the state of worker ", workers.first_local_worker + local, ", tensor '",
                       exchange.plan->layout.segment(segment).name, "' is missing");
    }
  }
}

}  // namespace

extern "C" {

tg_status tg_exchange_state(tg_exchange* exchange, tg_state_visitor visitor, void* self) {
  return guard([&] {
    tg_exchange& of = deref(exchange, "exchange");
    const Use use(of.in_use);
    TERNGRAD_REQUIRE(visitor != nullptr, "visitor is NULL");
    WorkerMemory* memory = of.parts.memory();
    if (memory == nullptr) return;
    const Layout& layout = of.plan->layout;
    for (int local = 0; local < memory->num_local_workers(); ++local) {
      for (int segment = 0; segment < layout.num_segments(); ++segment) {
        if (!memory->covers(segment)) continue;
        const std::span<float> values = state_of(*memory, layout, local, segment);
        const tg_named_array state{
            layout.segment(segment).name.c_str(),
            of.parts.workers().first_local_worker + local,
            0,
            {values.data(), static_cast<std::int64_t>(values.size()), TG_FP32, TG_CPU, 0, TG_READ_ONLY}};
        if (const int result = visitor(self, &state); result != 0) {
          TERNGRAD_THROW(CallbackFailed, "the visitor failed at worker ", state.worker, ", tensor '", state.name,
                         "': it returned ", result);
        }
      }
    }
  });
}

tg_status tg_exchange_restore(tg_exchange* exchange, uint64_t fingerprint, const char* memory,
                              const tg_named_array* states, int32_t n) {
  return guard([&] {
    tg_exchange& self = deref(exchange, "exchange");
    const Use use(self.in_use);
    deref(memory, "memory");
    require_same_kind(self, fingerprint, memory);
    TERNGRAD_REQUIRE(n >= 0 && (states != nullptr || n == 0), "states is ", states == nullptr ? "NULL" : "given",
                     ", n is ", n);
    std::set<std::pair<int, int>> given;
    std::vector<int> segments;
    for (int i = 0; i < n; ++i) {
      segments.push_back(segment_of(self, states[i]));
      TERNGRAD_REQUIRE(given.insert({states[i].worker, segments.back()}).second, "the state of worker ",
                       states[i].worker, ", tensor '", states[i].name, "' is given twice");
    }
    require_all(self, given);
    const WorkerGroup& workers = self.parts.workers();
    for (int i = 0; i < n; ++i) {
      const int local = states[i].worker - workers.first_local_worker;
      if (local < 0 || local >= workers.num_local_workers) continue;
      const int segment = segments[static_cast<std::size_t>(i)];
      std::ranges::copy(read_floats(states[i].values, states[i].name),
                        state_of(*self.parts.memory(), self.plan->layout, local, segment).begin());
    }
  });
}

}  // extern "C"
