// PushCounts: what became of workers' pushes in asynchronous training, and how stale they were.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace terngrad {

/// Counts of pushes. The staleness of a push is the number of updates that the parameters saw between the worker's pull
/// and its push (Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.1, call such gradients
/// out-of-date).
struct PushCounts {
  std::map<std::uint64_t, std::uint64_t> staleness;  // pushes that came, by staleness, dropped ones included
  std::uint64_t dropped = 0;                         // too stale
  std::uint64_t skipped = 0;                         // NaN or infinity in the gradient

  std::uint64_t total() const;
  /// 0 without pushes.
  double mean_staleness() const;
  std::uint64_t applied() const { return total() - dropped - skipped; }
  PushCounts& operator+=(const PushCounts& other);
  friend bool operator==(const PushCounts&, const PushCounts&) = default;

  /// One line without spaces, `staleness:pushes,...;dropped;skipped`, which parse_push_counts reads.
  std::string to_text() const;
  /// A human-readable table: a line for each staleness, or for each of at most 24 equally wide ranges of it, with a
  /// bar.
  std::string to_table() const;
};

/// @throws DataError if `text` is not what PushCounts::to_text writes
PushCounts parse_push_counts(const std::string& text);

}  // namespace terngrad
