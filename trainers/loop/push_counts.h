// PushCounts: applied, dropped and skipped pushes of asynchronous training, and their staleness.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace terngrad {

/// Counts of pushes. The staleness of a push is the number of updates that the parameters saw between the worker's pull
/// and its push (Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.1, call such gradients
/// out-of-date).
struct PushCounts {
  std::map<std::uint64_t, std::uint64_t> staleness;  // number of received pushes by staleness, dropped ones included
  std::uint64_t dropped = 0;                         // pushes that were too stale
  std::uint64_t skipped = 0;                         // pushes with NaN or infinity

  std::uint64_t total() const;
  /// Mean over all pushes; 0 without pushes.
  double mean_staleness() const;
  std::uint64_t applied() const { return total() - dropped - skipped; }
  PushCounts& operator+=(const PushCounts& other);
  friend bool operator==(const PushCounts&, const PushCounts&) = default;

  /// One line without spaces, `staleness:pushes,...;dropped;skipped`, which parse_push_counts reads.
  std::string to_text() const;
  /// A human-readable table with bars: a line per staleness, or for each of at most 24 equally wide ranges.
  std::string to_table() const;
};

/// Inverse of PushCounts::to_text. @throws DataError for other text
PushCounts parse_push_counts(const std::string& text);

}  // namespace terngrad
