// Scalers of a coder as if they had been combined with those of other workers.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "compress/codec/coder.h"

namespace terngrad::testing {

/// Workers of a setup for coders of one local worker: this one and another, whose scalers can be anything.
inline WorkerRange one_of_two(int worker) {
  return {.num_workers = worker + 2, .first_local_worker = worker, .num_local_workers = 1};
}

/// Combines a worker's local scalers so that the shared ones come out as given, or as its own (0 for NaN).
/// @param coder   of `codec` and workers one_of_two(worker), after measure
/// @param shared  [num_scalers] or empty; not looked at where the codec shares none
inline void combine_with(Coder& coder, const Codec& codec, int worker, std::span<const float> shared, Stream& stream) {
  const std::vector<float> local(coder.local_row(worker).begin(), coder.local_row(worker).end());
  for (int w = 0; w < worker + 2; ++w) {
    for (std::size_t s = 0; s < local.size(); ++s) {
      const bool is_flagged = std::isnan(local[s]);
      const float own = is_flagged ? 0.0f : local[s];
      const float other = shared.empty() ? own : shared[s];
      coder.local_row(w)[s] = w == worker && is_flagged ? local[s] : other;
    }
  }
  NonfiniteReport report;
  if (codec.sharing() == ScalerSharing::kNone) std::ranges::copy(local, coder.local_row(worker).begin());
  coder.combine_scalers(&report, nullptr, nullptr, stream);
  std::ranges::copy(local, coder.local_row(worker).begin());  // what clips a worker's own elements
}

}  // namespace terngrad::testing
