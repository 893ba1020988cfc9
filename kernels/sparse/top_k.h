// Selection of the elements of largest magnitude (top-k) of a run of elements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Number of kept elements: min(n, max(1, ceil(n density))) with n density in float64; 0 if n is 0.
std::int64_t top_k_count(std::int64_t num_elements, double density);

/// Finds the k elements of largest magnitude: those whose |x| has the largest float32 bit patterns, and among equal
/// ones the first. This set is unique, so it does not depend on threads, SIMD width or device.
///
/// Guesses a threshold that somewhat more than k elements reach, from the previous block or from a sample. One pass
/// over the run collects the elements that reach it, and the k largest of them are selected. If fewer than k reach it,
/// the next guess follows, finally from a histogram of the run. Memory grows with the number of collected elements: a
/// few times k, unless many elements are equal.
class TopKSelector {
 public:
  /// @param values  [count] of `type`, in host memory, aligned to their size, finite; count below 2^32
  /// @param k       from 0 to count
  /// @returns places of the elements in the run, ascending; valid until the next call
  /// @throws InvalidArgument for another k or count
  std::span<const std::uint32_t> run(const void* values, ElementType type, std::int64_t count, std::int64_t k,
                                     Stream& stream);

 private:
  /// Places and magnitudes of the elements found in a range.
  struct Found {
    std::vector<std::uint32_t> places;
    std::vector<std::uint32_t> magnitudes;
  };

  /// Collects the elements whose magnitude is at least `threshold`: places in kept_, magnitudes in magnitudes_.
  /// @returns the number of such elements
  std::int64_t collect(const void* values, ElementType type, std::int64_t count, std::uint32_t threshold,
                       Stream& stream);
  /// Estimates from a sample a magnitude above 0 that at least k elements reach, if that many are nonzero.
  std::uint32_t sampled_threshold(const void* values, ElementType type, std::int64_t count, std::int64_t k);
  /// The same from a histogram of the whole run instead of a sample.
  static std::uint32_t counted_threshold(const void* values, ElementType type, std::int64_t count, std::int64_t k);
  /// Keeps in kept_ only the k elements of largest magnitude, in order of place.
  void select(std::int64_t k);
  /// The k-th largest of magnitudes_.
  std::uint32_t kth_magnitude(std::int64_t k);
  /// Adds the first zero elements until there are k elements.
  void add_zeros(const void* values, ElementType type, std::int64_t count, std::int64_t k);

  std::vector<std::uint32_t> kept_;
  std::vector<std::uint32_t> magnitudes_;
  std::vector<std::uint32_t> candidates_;  // remaining candidates in kth_magnitude
  std::vector<Found> of_ranges_;
  // From the previous run: number of elements, k, and the smallest selected magnitude.
  std::int64_t last_count_ = 0;
  std::int64_t last_k_ = 0;
  std::uint32_t last_least_ = 0;
};

namespace cpu {
/// Writes the places and magnitudes of the elements whose magnitude, as a bit pattern, is at least `threshold`.
/// @param count              at most a chunk
/// @param first              place of the first element
/// @param places,magnitudes  [count + kPlacesSlack] out
/// @returns the number of such elements
std::int64_t places_at_least(const float* values, std::int64_t count, std::uint32_t threshold, std::uint32_t first,
                             std::uint32_t* places, std::uint32_t* magnitudes);
inline constexpr std::int64_t kPlacesSlack = 16;  // a vector store may write this far past the last valid entry
}  // namespace cpu

}  // namespace terngrad
