// The elements of largest magnitude of a run, for sparse messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// How many of a run's elements are kept: min(n, max(1, ceil(n density))) with n density in float64; 0 where n is 0.
std::int64_t top_k_count(std::int64_t num_elements, double density);

/// Finds the k elements of largest magnitude: those whose |x| has the largest bit patterns as float32, and of equal
/// ones those that come first. That is one set, whatever finds it, so it does not depend on threads, SIMD width or
/// device.
///
/// A threshold that somewhat more than k elements reach is guessed: from the block before, or else from a sample. One
/// pass over the run keeps the places of those that do, and the k are selected among them. Where fewer than k reach it,
/// the next guess is made, at last from a histogram of the run. Memory grows with the number of places kept: a few k,
/// unless many elements are equal.
class TopKSelector {
 public:
  /// @param values  [count] of `type`, in host memory, aligned to their size, finite; count below 2^32
  /// @param k       from 0 to count
  /// @returns places of the elements in the run, ascending, until the next call
  /// @throws InvalidArgument for another k or count
  std::span<const std::uint32_t> run(const void* values, ElementType type, std::int64_t count, std::int64_t k,
                                     Stream& stream);

 private:
  /// Places and magnitudes of a range's elements, as they are found.
  struct Found {
    std::vector<std::uint32_t> places;
    std::vector<std::uint32_t> magnitudes;
  };

  /// Places of the elements whose magnitude is at least `threshold` into kept_, their magnitudes into magnitudes_.
  /// @returns how many there are
  std::int64_t collect(const void* values, ElementType type, std::int64_t count, std::uint32_t threshold,
                       Stream& stream);
  /// A magnitude above 0 that at least k elements reach, if so many are not 0.
  std::uint32_t sampled_threshold(const void* values, ElementType type, std::int64_t count, std::int64_t k);
  static std::uint32_t counted_threshold(const void* values, ElementType type, std::int64_t count, std::int64_t k);
  /// Leaves the k first of kept_ by magnitude, then place.
  void select(std::int64_t k);
  /// The k-th largest of magnitudes_.
  std::uint32_t kth_magnitude(std::int64_t k);
  /// Adds the first elements that are 0, until there are k.
  void add_zeros(const void* values, ElementType type, std::int64_t count, std::int64_t k);

  std::vector<std::uint32_t> kept_;
  std::vector<std::uint32_t> magnitudes_;
  std::vector<std::uint32_t> candidates_;  // among which kth_magnitude still looks
  std::vector<Found> of_ranges_;
  // Of the run before: its elements, k, and the least magnitude that was selected.
  std::int64_t last_count_ = 0;
  std::int64_t last_k_ = 0;
  std::uint32_t last_least_ = 0;
};

namespace cpu {
/// Writes the places and magnitudes of the elements whose magnitude, as a bit pattern, is at least `threshold`.
/// @param count              at most a chunk
/// @param first              place of the first element
/// @param places,magnitudes  [count + kPlacesSlack] out
/// @returns how many there are
std::int64_t places_at_least(const float* values, std::int64_t count, std::uint32_t threshold, std::uint32_t first,
                             std::uint32_t* places, std::uint32_t* magnitudes);
inline constexpr std::int64_t kPlacesSlack = 16;  // a vector's, of which less may be meant
}  // namespace cpu

}  // namespace terngrad
