// Combines scalers of a coder without an exchange.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "compress/codec/coder.h"

namespace terngrad::testing {

/// A range with one local worker, `worker`, and at least one other, whose scalers the test chooses.
inline WorkerRange one_of_two(int worker) {
  return {.num_workers = worker + 2, .first_local_worker = worker, .num_local_workers = 1};
}

/// Combines scalers so that the shared ones become `shared`, or the worker's own (0 for NaN) if it is empty.
/// @param coder   has measured; its workers are one_of_two(worker)
/// @param shared  [num_scalers] or empty; ignored if the codec shares no scalers
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
  std::ranges::copy(local, coder.local_row(worker).begin());  // encode clips by the local scalers
}

}  // namespace terngrad::testing
