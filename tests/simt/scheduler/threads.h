// The threads of the block that runs. There is one block at a time, so one set of these.
#pragma once

#include <vector>

#include "scheduler/fiber.h"
#include "simt/block.h"

namespace simt {

/// A place where threads wait for each other, again and again.
struct Rendezvous {
  unsigned generation = 0;  ///< how often it was complete
  unsigned arrived = 0;     ///< threads that wait for it to be so again: their number, or their lanes as a mask
  Site site;
  char tokens[2];  ///< for the thread sanitizer, of odd and of even generations

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
  unsigned generation = 0;  ///< that it waits to see the end of
  Site site;                ///< where it waits
};

/// The thread that runs; null outside of a launch.
extern Thread* current;
/// Threads of the block that have not ended.
extern unsigned num_alive;

/// Lets others run until the rendezvous is complete.
void wait_for(const Rendezvous& rendezvous, Site site);

/// Makes the places where threads meet ready for blocks of that many warps.
void reset_rendezvous(std::size_t num_warps);
/// Called when a thread ends: a barrier does not wait for it any longer.
void complete_barrier_if_all_came();

/// Tells which thread runs, if one does.
void print_position();

}  // namespace simt
