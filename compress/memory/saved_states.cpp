#include "compress/memory/saved_states.h"

#include <cstddef>

#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"

namespace terngrad {
namespace {

void append(const Layout& layout, std::span<float> values, int worker, std::vector<SavedState>& states) {
  for (const Segment& segment : layout.segments()) {
    states.push_back(
        {segment.name, worker, segment.shape,
         values.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements))});
  }
}

}  // namespace

std::vector<SavedState> saved_states(WorkerMemory* memory, SharedState* shared, int first_local_worker) {
  std::vector<SavedState> states;
  const int num_workers = memory == nullptr ? 0 : memory->num_local_workers();
  for (int worker = 0; worker < num_workers; ++worker) {
    append(memory->layout(), memory->state(worker), first_local_worker + worker, states);
  }
  if (shared != nullptr) append(shared->layout(), shared->values(), SavedState::kAllRanks, states);
  return states;
}

}  // namespace terngrad
