// Threads of the running block. Only one block runs at a time.
#pragma once

#include <vector>

#include "scheduler/fiber.h"
#include "simt/block.h"

namespace simt {

/// A reusable synchronization point.
struct Rendezvous {
  unsigned generation = 0;  ///< number of completions
  unsigned arrived = 0;     ///< waiting threads: their number, or a lane mask
  Site site;
  char tokens[2];  ///< for the thread sanitizer, by parity of the generation

  char* token() { return &tokens[generation % 2]; }
  void complete() {
    arrived = 0;
    ++generation;
  }
};

struct Thread : Indices {
  Thread(void (*entry)(), std::size_t number) : fiber(entry, number) {}
  bool can_run() const { return !ended && (waits_for == nullptr || waits_for->generation != generation); }

  Fiber fiber;
  bool ended = true;
  const Rendezvous* waits_for = nullptr;
  unsigned generation = 0;  ///< generation that it waits for to end
  Site site;                ///< location of the wait
};

/// The running thread; null outside of a launch.
extern Thread* current;
/// Threads of the block that have not ended.
extern unsigned num_alive;

/// Runs other threads until the rendezvous is complete.
void wait_for(const Rendezvous& rendezvous, Site site);

/// Resets the synchronization points for blocks of `num_warps` warps.
void reset_rendezvous(std::size_t num_warps);
/// Called when a thread ends: completes the barrier if all others wait at it.
void complete_barrier_if_all_came();

/// Prints the running thread, if any.
void print_position();

}  // namespace simt
