// Block barriers and warp-level synchronization.
#include <cstring>
#include <vector>

#include "scheduler/sanitizers.h"
#include "scheduler/threads.h"

namespace simt {
namespace {

struct Barrier : Rendezvous {
  unsigned trues = 0;   // true predicates of this generation
  unsigned result = 0;  // true predicates of the last generation
};

struct Lanes : Rendezvous {
  unsigned mask = 0;
  std::uint64_t values[2][32];  // by parity of the generation: slow lanes may still read the last one
};

/// Lanes with disjoint masks synchronize independently: one rendezvous per lowest lane of a mask.
struct Warp {
  Lanes by_lowest[32];
};

Barrier barrier;
std::vector<Warp> warps;

bool same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

void reset_rendezvous(std::size_t num_warps) { warps.assign(num_warps, {}); }

void complete_barrier_if_all_came() {
  if (barrier.arrived == 0 || barrier.arrived < num_alive) return;
  barrier.result = barrier.trues;
  barrier.trues = 0;
  barrier.complete();
}

unsigned sync_threads(bool predicate, Site site) {
  if (barrier.arrived == 0) {
    barrier.site = site;
  } else if (!same(barrier.site, site)) {
    fail("threads of a block meet at different __syncthreads", site);
  }
  char* token = barrier.token();
  sanitizer::release(token);
  if (predicate) ++barrier.trues;
  if (++barrier.arrived == num_alive) {
    complete_barrier_if_all_came();
  } else {
    wait_for(barrier, site);
  }
  sanitizer::acquire(token);
  return barrier.result;
}

const std::uint64_t* warp_gather(unsigned mask, std::uint64_t value, bool orders_memory, Site site) {
  const unsigned bit = 1u << current->lane;
  if ((mask & bit) == 0) fail("the calling lane is not in the mask", site);
  Lanes& lanes = warps[current->linear / 32].by_lowest[__builtin_ctz(mask)];
  if (lanes.arrived == 0) {
    lanes.site = site;
    lanes.mask = mask;
  } else if (lanes.mask != mask || !same(lanes.site, site)) {
    fail("lanes of a warp meet at different collectives or masks", site);
  }
  char* token = lanes.token();
  if (orders_memory) sanitizer::release(token);
  std::uint64_t* values = lanes.values[lanes.generation % 2];
  values[current->lane] = value;
  lanes.arrived |= bit;
  if (lanes.arrived == mask) {
    lanes.complete();
  } else {
    wait_for(lanes, site);
  }
  if (orders_memory) sanitizer::acquire(token);
  return values;
}

}  // namespace simt
