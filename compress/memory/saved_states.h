// Exchange state as named arrays, for checkpoints of the language bindings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

class SharedState;
class WorkerMemory;

/// One array of state to save.
struct SavedState {
  static constexpr int kAllRanks = -1;

  std::string name;  // tensor name, with "/velocity" appended for a velocity (WorkerMemory::layout)
  int worker = 0;    // global number; kAllRanks: equal on all ranks (SharedState)
  std::vector<std::int64_t> shape;
  std::span<float> values;  // in the memory of the exchange's device
};

/// All arrays that this process has to save: worker by worker, then those equal on all ranks.
/// @param memory, shared  null if there is none. Both must outlive the result
std::vector<SavedState> saved_states(WorkerMemory* memory, SharedState* shared, int first_local_worker);

}  // namespace terngrad
