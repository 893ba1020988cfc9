#include "kernels/sparse/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/widened_chunk.h"

namespace terngrad {
namespace {

/// Sample size for guessing the threshold, at equal distances.
constexpr std::int64_t kSamples = 16384;
/// Runs of up to this many elements use no histogram: all their nonzero elements are collected instead.
constexpr std::int64_t kShortRun = 65536;
/// In magnitude bits: subtracting it lowers a magnitude by about an eighth or less.
constexpr std::uint32_t kEighth = 1u << 20;
/// The histogram counts magnitudes by their upper bits: exponent and 8 fraction bits.
constexpr int kCountedShift = 15;

std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

/// Calls f(chunk's values, its first place, its length) for chunks [begin, end).
template <class F>
void for_chunks(const void* values, ElementType type, std::int64_t count, std::int64_t begin, std::int64_t end,
                const F& f) {
  cpu::WidenedChunk widened;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    const std::int64_t first = chunk * kChunkElements;
    const std::int64_t num_values = std::min(kChunkElements, count - first);
    f(widened.of(values, type, first, num_values), first, num_values);
  }
}

std::int64_t num_chunks(std::int64_t count) { return (count + kChunkElements - 1) / kChunkElements; }

}  // namespace

std::int64_t top_k_count(std::int64_t num_elements, double density) {
  if (num_elements == 0) return 0;
  const double kept = std::ceil(static_cast<double>(num_elements) * density);
  return std::min(num_elements, std::max<std::int64_t>(1, static_cast<std::int64_t>(kept)));
}

std::span<const std::uint32_t> TopKSelector::run(const void* values, ElementType type, std::int64_t count,
                                                 std::int64_t k, Stream& stream) {
  TERNGRAD_REQUIRE(k >= 0 && k <= count, "[top_k] k must be from 0 to ", count, ", got ", k);
  TERNGRAD_REQUIRE(count >> 32 == 0, "[top_k] places have 32 bits, the run has ", count, " elements");
  if (k == count) {
    kept_.resize(static_cast<std::size_t>(count));
    std::iota(kept_.begin(), kept_.end(), 0u);
    return kept_;
  }
  kept_.clear();
  if (k == 0) return kept_;
  // The k-th magnitude of a block is rarely more than an eighth below that of the previous block. Longer runs may be
  // unrelated tensors, and sampling them is cheap.
  std::int64_t found = 0;
  if (count <= kShortRun && count == last_count_ && k == last_k_ && last_least_ > kEighth) {
    found = collect(values, type, count, last_least_ - kEighth, stream);
  }
  if (found < k) found = collect(values, type, count, sampled_threshold(values, type, count, k), stream);
  if (found < k) {
    const std::uint32_t enough = count <= kShortRun ? 1 : counted_threshold(values, type, count, k);
    found = collect(values, type, count, enough, stream);
  }
  if (found < k) {
    add_zeros(values, type, count, k);
  } else if (found > k) {
    select(k);
  }
  last_count_ = count;
  last_k_ = k;
  return kept_;
}

std::uint32_t TopKSelector::sampled_threshold(const void* values, ElementType type, std::int64_t count,
                                              std::int64_t k) {
  const std::int64_t distance = std::max<std::int64_t>(16, (count + kSamples - 1) / kSamples);
  magnitudes_.clear();
  for (std::int64_t i = 0; i < count; i += distance)
    magnitudes_.push_back(magnitude_of(element_as_float(values, type, i)));
  // Number of samples among the k largest elements, plus about three standard deviations (square root of the number).
  const double expected = static_cast<double>(k) / static_cast<double>(distance);
  const auto rank = static_cast<std::size_t>(expected + 3 * std::sqrt(expected) + 2);
  if (rank >= magnitudes_.size()) return 1;
  const auto nth = magnitudes_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(magnitudes_.begin(), nth, magnitudes_.end(), std::greater<>());
  return std::max(1u, *nth);
}

std::uint32_t TopKSelector::counted_threshold(const void* values, ElementType type, std::int64_t count,
                                              std::int64_t k) {
  std::vector<std::int64_t> counts(std::size_t{1} << (31 - kCountedShift));
  for_chunks(values, type, count, 0, num_chunks(count), [&](const float* chunk, std::int64_t, std::int64_t num_values) {
    for (std::int64_t i = 0; i < num_values; ++i) ++counts[magnitude_of(chunk[i]) >> kCountedShift];
  });
  std::size_t bucket = counts.size();
  for (std::int64_t above = 0; above < k && bucket > 0;) above += counts[--bucket];
  return std::max(1u, static_cast<std::uint32_t>(bucket) << kCountedShift);
}

std::int64_t TopKSelector::collect(const void* values, ElementType type, std::int64_t count, std::uint32_t threshold,
                                   Stream& stream) {
  constexpr std::int64_t kRangeChunks = 16;
  const std::int64_t chunks = num_chunks(count);
  const std::int64_t num_ranges = std::max<std::int64_t>(
      1, std::min<std::int64_t>(stream.num_threads(), (chunks + kRangeChunks - 1) / kRangeChunks));
  of_ranges_.resize(std::max(of_ranges_.size(), static_cast<std::size_t>(num_ranges)));
  parallel_for(stream.num_threads(), num_ranges, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t range = begin; range < end; ++range) {
      Found& of_range = of_ranges_[static_cast<std::size_t>(range)];
      std::vector<std::uint32_t>& places = of_range.places;
      std::vector<std::uint32_t>& magnitudes = of_range.magnitudes;
      std::size_t found = 0;
      for_chunks(values, type, count, chunks * range / num_ranges, chunks * (range + 1) / num_ranges,
                 [&](const float* chunk, std::int64_t first, std::int64_t num_values) {
                   const std::size_t room = found + static_cast<std::size_t>(num_values + cpu::kPlacesSlack);
                   if (std::min(places.size(), magnitudes.size()) < room) {
                     places.resize(std::max(room, 2 * found));
                     magnitudes.resize(places.size());
                   }
                   found += static_cast<std::size_t>(
                       cpu::places_at_least(chunk, num_values, threshold, static_cast<std::uint32_t>(first),
                                            places.data() + found, magnitudes.data() + found));
                 });
      places.resize(found);
      magnitudes.resize(found);
    }
  });
  if (num_ranges == 1) {
    kept_.swap(of_ranges_[0].places);
    magnitudes_.swap(of_ranges_[0].magnitudes);
    return static_cast<std::int64_t>(kept_.size());
  }
  kept_.clear();
  magnitudes_.clear();
  for (std::int64_t range = 0; range < num_ranges; ++range) {
    const auto& [places, magnitudes] = of_ranges_[static_cast<std::size_t>(range)];
    kept_.insert(kept_.end(), places.begin(), places.end());
    magnitudes_.insert(magnitudes_.end(), magnitudes.begin(), magnitudes.end());
  }
  return static_cast<std::int64_t>(kept_.size());
}

std::uint32_t TopKSelector::kth_magnitude(std::int64_t k) {
  // Radix selection from the highest bits: counts locate the bucket, and only that bucket is searched further. It has
  // far fewer mispredicted branches than partitioning.
  constexpr int kBucketBits = 11;
  constexpr std::size_t kFew = 64;
  std::array<std::uint32_t, std::size_t{1} << kBucketBits> counts;
  std::span<const std::uint32_t> rest = magnitudes_;
  const auto ends = std::ranges::minmax_element(rest);
  std::uint32_t least = *ends.min;
  std::uint32_t most = *ends.max;
  while (rest.size() > kFew && most > least) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kBucketBits);
    counts.fill(0);
    for (const std::uint32_t magnitude : rest) ++counts[(magnitude - least) >> shift];
    std::uint32_t bucket = (most - least) >> shift;
    for (; k > counts[bucket]; --bucket) k -= counts[bucket];
    least += bucket << shift;
    most = least + ((std::uint32_t{1} << shift) - 1);
    if (shift == 0) return least;
    std::size_t kept = 0;
    candidates_.resize(std::max(candidates_.size(), rest.size()));
    for (const std::uint32_t magnitude : rest) {
      candidates_[kept] = magnitude;  // in place: never ahead of the read position
      kept += magnitude >= least && magnitude <= most ? 1 : 0;
    }
    rest = {candidates_.data(), kept};
  }
  if (most == least) return least;
  std::array<std::uint32_t, kFew> few;
  std::ranges::copy(rest, few.begin());
  const auto nth = few.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(few.begin(), nth, few.begin() + static_cast<std::ptrdiff_t>(rest.size()), std::greater<>());
  return *nth;
}

void TopKSelector::select(std::int64_t k) {
  const std::uint32_t least = kth_magnitude(k);
  last_least_ = least;
  const auto num_larger =
      std::ranges::count_if(magnitudes_, [&](std::uint32_t magnitude) { return magnitude > least; });
  std::int64_t num_equal = k - num_larger;  // number of equal elements to keep, the first ones
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const bool is_equal = magnitudes_[i] == least;
    const bool is_kept = magnitudes_[i] > least || (is_equal && num_equal > 0);
    kept_[kept] = kept_[i];
    kept += is_kept ? 1 : 0;
    num_equal -= is_equal ? 1 : 0;
  }
  kept_.resize(kept);
}

void TopKSelector::add_zeros(const void* values, ElementType type, std::int64_t count, std::int64_t k) {
  const std::size_t num_nonzero = kept_.size();
  for (std::int64_t i = 0; i < count && static_cast<std::int64_t>(kept_.size()) < k; ++i) {
    if (magnitude_of(element_as_float(values, type, i)) == 0) kept_.push_back(static_cast<std::uint32_t>(i));
  }
  std::inplace_merge(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(num_nonzero), kept_.end());
}

}  // namespace terngrad
