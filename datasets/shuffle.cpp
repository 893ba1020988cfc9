#include "datasets/shuffle.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// The words of a Philox stream in order.
class WordStream {
 public:
  explicit WordStream(const DrawKey& key) : key_(key) {}

  std::uint32_t next() {
    if (used_ == words_.size()) {
      words_ = draw_block(key_, next_block_++);
      used_ = 0;
    }
    return words_[used_++];
  }

  /// Uniform in [0, bound), bound at least 1, without bias.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      // 2^32 mod bound. The division is needed only here, with probability bound / 2^32.
      const std::uint32_t threshold = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  DrawKey key_;
  std::uint64_t next_block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

void shuffle(std::vector<std::uint32_t>& order, const DrawKey& key) {
  WordStream words(key);
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[words.below(static_cast<std::uint32_t>(i + 1))]);
}

/// Readers that open shards in a given order and yield their examples in turn.
class ShardReaders {
 public:
  ShardReaders(std::span<const std::uint32_t> shards, std::span<const std::uint32_t> first,
               std::span<const std::int64_t> sizes, int num_readers)
      : shards_(shards), first_(first), sizes_(sizes) {
    while (open_.size() < static_cast<std::size_t>(num_readers) && open_next(open_.emplace_back())) {
    }
    if (!open_.empty() && open_.back().next == open_.back().end) open_.pop_back();
  }

  /// The next example, which must exist.
  std::uint32_t next() {
    if (turn_ >= open_.size()) turn_ = 0;
    Range& reader = open_[turn_];
    const std::uint32_t example = reader.next++;
    // A reader without a further shard is removed; the next reader takes its turn.
    if (reader.next == reader.end && !open_next(reader)) {
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(turn_));
    } else {
      ++turn_;
    }
    return example;
  }

 private:
  struct Range {
    std::uint32_t next = 0;
    std::uint32_t end = 0;
  };
  /// Opens the next shard that is not empty. @returns false if there is none
  bool open_next(Range& reader) {
    while (taken_ < shards_.size()) {
      const std::uint32_t shard = shards_[taken_++];
      if (sizes_[shard] == 0) continue;
      reader = {.next = first_[shard], .end = first_[shard] + static_cast<std::uint32_t>(sizes_[shard])};
      return true;
    }
    return false;
  }

  std::span<const std::uint32_t> shards_;
  std::span<const std::uint32_t> first_;  // first example of each shard
  std::span<const std::int64_t> sizes_;
  std::size_t taken_ = 0;  // number of shards opened
  std::vector<Range> open_;
  std::size_t turn_ = 0;
};

}  // namespace

void epoch_permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t num_examples,
                       std::vector<std::uint32_t>& order) {
  TERNGRAD_REQUIRE(num_examples >= 0 && num_examples <= kMaxShuffledExamples,
                   "[epoch_permutation] num_examples must be in [0, ", kMaxShuffledExamples, "], got ", num_examples);
  TERNGRAD_REQUIRE(epoch >> 40 == 0, "[epoch_permutation] epoch must be below 2^40, got ", epoch);
  order.resize(static_cast<std::size_t>(num_examples));
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, {.seed = seed, .step = epoch, .worker = 0, .purpose = DrawPurpose::kShuffle});
}

void window_permutation(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> shard_sizes,
                        int num_readers, std::int64_t window, std::vector<std::uint32_t>& order) {
  TERNGRAD_REQUIRE(epoch >> 40 == 0, "[window_permutation] epoch must be below 2^40, got ", epoch);
  TERNGRAD_REQUIRE(num_readers >= 1 && window >= 1, "[window_permutation] needs at least 1 reader and a window of 1, ",
                   "got ", num_readers, " and ", window);
  std::int64_t num_examples = 0;
  std::vector<std::uint32_t> first;  // first example of each shard
  for (const std::int64_t size : shard_sizes) {
    TERNGRAD_REQUIRE(size >= 0 && size <= kMaxShuffledExamples - num_examples,
                     "[window_permutation] shards must have 0 to ", kMaxShuffledExamples, " examples together, got ",
                     size, " after ", num_examples);
    first.push_back(static_cast<std::uint32_t>(num_examples));
    num_examples += size;
  }
  std::vector<std::uint32_t> shards(shard_sizes.size());
  std::iota(shards.begin(), shards.end(), 0u);
  shuffle(shards, {.seed = seed, .step = epoch, .worker = 1, .purpose = DrawPurpose::kShuffle});
  WordStream words({.seed = seed, .step = epoch, .worker = 2, .purpose = DrawPurpose::kShuffle});
  ShardReaders readers(shards, first, shard_sizes, num_readers);
  const auto count = static_cast<std::size_t>(num_examples);
  std::vector<std::uint32_t> held(std::min(count, static_cast<std::size_t>(window)));
  for (std::uint32_t& example : held) example = readers.next();
  order.resize(count);
  for (std::size_t given = held.size(), i = 0; i < count; ++i) {
    std::uint32_t& drawn = held[words.below(static_cast<std::uint32_t>(held.size()))];
    order[i] = drawn;
    if (given < count) {
      drawn = readers.next();
      ++given;
    } else {
      drawn = held.back();
      held.pop_back();
    }
  }
}

}  // namespace terngrad
