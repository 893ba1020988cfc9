// Permutations: the order of examples in an epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terngrad {

/// Maximum number of examples, as indices are 32-bit.
inline constexpr std::int64_t kMaxShuffledExamples = (std::int64_t{1} << 32) - 1;

/// Fills `order` with a permutation of 0, 1, ..., num_examples - 1 drawn from (seed, epoch) alone.
///
/// Fisher-Yates: from the identity, for i = num_examples - 1 down to 1, order[i] and order[j] change places, j uniform
/// in [0, i]. The draws are the 32-bit words of Philox in order (key: seed, step = epoch, worker 0,
/// DrawPurpose::kShuffle). j is the high half of word * (i + 1), as in Lemire, "Fast random integer generation in an
/// interval" (2019): words whose low half is below 2^32 mod (i + 1) are skipped, so all j are equally likely.
/// @param order  out; its memory is reused, so a second epoch of the same size allocates nothing
/// @throws InvalidArgument if num_examples is not in [0, kMaxShuffledExamples] or epoch has more than 40 bits
void epoch_permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t num_examples,
                       std::vector<std::uint32_t>& order);

/// Fills `order` with a permutation of the examples of all shards, drawn from (seed, epoch) alone, with sequential
/// reads of each shard, like the shuffle queue of TensorFlow's readers but deterministic.
///
/// The shards are permuted (Fisher-Yates as epoch_permutation, with worker 1 in the draws' key). num_readers readers in
/// turn yield the next example of their shard, and open the next shard at its end. These examples fill a window: each
/// step takes one from it, drawn uniformly (worker 2 in the key), and puts the next example in its place; at the end
/// the window is drained in the same way. So an example is at most `window` - 1 places early, and arbitrarily late.
/// @param shard_sizes  examples of each shard; example i is the i-th of all in the order of the shards
/// @throws InvalidArgument as epoch_permutation, for num_readers or window below 1, or a negative size
void window_permutation(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> shard_sizes,
                        int num_readers, std::int64_t window, std::vector<std::uint32_t>& order);

}  // namespace terngrad
