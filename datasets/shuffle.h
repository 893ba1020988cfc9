// The order in which an epoch visits the examples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terngrad {

/// Largest number of examples that epoch_permutation orders: indices are 32-bit.
inline constexpr std::int64_t kMaxShuffledExamples = (std::int64_t{1} << 32) - 1;

/// Fills `order` with a permutation of 0, 1, ..., num_examples - 1 drawn from (seed, epoch) alone.
///
/// Fisher-Yates: from the identity, for i = num_examples - 1 down to 1, order[i] and order[j] change places, j uniform
/// in [0, i]. The draws are the 32-bit words of Philox in order (key: seed, step = epoch, worker 0,
/// DrawPurpose::kShuffle). j is the high half of word * (i + 1), after Lemire, "Fast random integer generation in an
/// interval" (2019): a word whose low half is below 2^32 mod (i + 1) is dropped and the next one taken, so every j is
/// equally likely: no bias.
/// @param order  out; reused, so a second epoch of the same size allocates nothing
/// @throws InvalidArgument if num_examples is not in [0, kMaxShuffledExamples] or epoch has more than 40 bits
void epoch_permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t num_examples,
                       std::vector<std::uint32_t>& order);

/// Fills `order` with a permutation of the examples of all shards, drawn from (seed, epoch), in which each shard is
/// read from its first example to its last: the order that TensorFlow's queue gives its readers, without its races.
///
/// The shards are permuted (Fisher-Yates as epoch_permutation, worker 1 of the draws). num_readers of them are open at
/// once; in turn each reader gives the next example of its shard, and takes the next shard where its own is at its end.
/// The examples given go through a window: one is drawn from the window's examples, uniformly (worker 2 of the draws),
/// and the next one given takes its place; at the end the window is emptied in the same way. So an example comes at
/// most `window` - 1 places early, and any number late.
/// @param shard_sizes  examples of each shard; example i is the i-th of all in the order of the shards
/// @throws InvalidArgument as epoch_permutation, for fewer than 1 reader or place of the window, or a size below 0
void window_permutation(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> shard_sizes,
                        int num_readers, std::int64_t window, std::vector<std::uint32_t>& order);

}  // namespace terngrad
