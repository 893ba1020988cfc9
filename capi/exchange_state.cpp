// Saving and restoring the state that an exchange keeps between steps.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capi/arrays.h"
#include "capi/exchange.h"
#include "capi/status.h"
#include "compress/memory/saved_states.h"
#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "kernels/runtime/call_guard.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

void require_same_kind(const tg_exchange& exchange, std::uint64_t fingerprint, const std::string& memory) {
  TERNGRAD_REQUIRE(memory == exchange.memory, "the state is of memory ", memory, ", this exchange has ",
                   exchange.memory);
  const std::uint64_t ours = exchange.plan->codecs.fingerprint();
  TERNGRAD_REQUIRE(fingerprint == ours, "the state is of fingerprint ", fingerprint, ", this exchange has ", ours,
                   ": it has other tensors, codecs or workers");
}

std::string text_of(int worker, const std::string& name) {
  return worker == SavedState::kAllRanks ? "the state of all ranks, tensor '" + name + "'"
                                         : "the state of worker " + std::to_string(worker) + ", tensor '" + name + "'";
}

/// The layout of a worker's state tensors. @throws InvalidArgument for an unknown worker
const Layout& layout_of(tg_exchange& exchange, int worker) {
  if (worker == SavedState::kAllRanks) return exchange.step.shared_state().layout();
  require_range("the worker of a state", worker, 0, exchange.plan->num_workers - 1);
  static const Layout empty;
  const WorkerMemory* memory = exchange.step.memory();
  return memory == nullptr ? empty : memory->layout();
}

/// Checks a state array to be restored, which may belong to this rank's workers or to others.
void require_state(tg_exchange& exchange, const tg_named_array& state) {
  deref(state.name, "the name of a state");
  const Layout& layout = layout_of(exchange, state.worker);
  const int segment = layout.find(state.name);
  const std::string name = text_of(state.worker, state.name);
  TERNGRAD_REQUIRE(segment >= 0, name, " is none that this exchange has");
  const auto count = static_cast<std::int64_t>(read_floats(state.values, name).size());
  TERNGRAD_REQUIRE(count == layout.segment(segment).num_elements, name, " has ", count, " elements, expected ",
                   layout.segment(segment).num_elements);
}

}  // namespace

extern "C" {

tg_status tg_exchange_state(tg_exchange* exchange, tg_state_visitor visitor, void* self) {
  return guard([&] {
    tg_exchange& of = deref(exchange, "exchange");
    const CallGuard guard(of.in_use);
    TERNGRAD_REQUIRE(visitor != nullptr, "visitor is NULL");
    for (const SavedState& each : of.step.states()) {
      const tg_named_array state{
          each.name.c_str(),
          each.worker,
          0,
          {each.values.data(), static_cast<std::int64_t>(each.values.size()), TG_FP32, TG_CPU, 0, TG_READ_ONLY}};
      if (const int result = visitor(self, &state); result != 0) {
        TERNGRAD_THROW(CallbackFailed, "the visitor failed at ", text_of(each.worker, each.name), ": it returned ",
                       result);
      }
    }
  });
}

tg_status tg_exchange_restore(tg_exchange* exchange, uint64_t fingerprint, const char* memory,
                              const tg_named_array* states, int32_t n) {
  return guard([&] {
    tg_exchange& self = deref(exchange, "exchange");
    const CallGuard guard(self.in_use);
    deref(memory, "memory");
    require_same_kind(self, fingerprint, memory);
    TERNGRAD_REQUIRE(n >= 0 && (states != nullptr || n == 0), "states is ", states == nullptr ? "NULL" : "given",
                     ", n is ", n);
    std::map<std::pair<int, std::string>, const tg_array*> given;
    for (int i = 0; i < n; ++i) {
      require_state(self, states[i]);
      const auto [place, is_new] = given.emplace(std::pair(states[i].worker, states[i].name), &states[i].values);
      if (is_new) continue;
      const std::string name = text_of(states[i].worker, states[i].name);
      // State shared by all ranks may be given once per rank, with equal values.
      TERNGRAD_REQUIRE(states[i].worker == SavedState::kAllRanks &&
                           std::ranges::equal(read_floats(*place->second, name), read_floats(states[i].values, name)),
                       name, " is given twice");
    }
    const std::vector<SavedState> own = self.step.states();
    for (const SavedState& state : own) {
      TERNGRAD_REQUIRE(given.contains({state.worker, state.name}), text_of(state.worker, state.name), " is missing");
    }
    for (const SavedState& state : own) {
      std::ranges::copy(read_floats(*given.at({state.worker, state.name}), state.name), state.values.begin());
    }
  });
}

}  // extern "C"
