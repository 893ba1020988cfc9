// The states of an exchange, as interfaces for other languages save and restore them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

class FactorState;
class WorkerMemory;

/// One array of what is kept from step to step.
struct SavedState {
  static constexpr int kAllRanks = -1;

  std::string name;  // of the tensor, with "/velocity" behind it for a velocity (WorkerMemory::layout)
  int worker = 0;    // global number; kAllRanks: of no worker, equal on all ranks (FactorState)
  std::vector<std::int64_t> shape;
  std::span<float> values;  // in the memory of the exchange's device
};

/// Everything that this process has to save, worker after worker, then what all ranks have alike.
/// @param memory, factors  null: there is none. Both outlive the result
std::vector<SavedState> saved_states(WorkerMemory* memory, FactorState* factors, int first_local_worker);

}  // namespace terngrad
