#include "datasets/shuffle.h"

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/philox.h"

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
      // 2^32 mod bound; the division is needed only here, in bound of 2^32 cases.
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

}  // namespace

void epoch_permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t num_examples,
                       std::vector<std::uint32_t>& order) {
  TERNGRAD_REQUIRE(num_examples >= 0 && num_examples <= kMaxShuffledExamples,
                   "[epoch_permutation] num_examples must be in [0, ", kMaxShuffledExamples, "], got ", num_examples);
  TERNGRAD_REQUIRE(epoch >> 40 == 0, "[epoch_permutation] epoch must be below 2^40, got ", epoch);
  order.resize(static_cast<std::size_t>(num_examples));
  std::iota(order.begin(), order.end(), 0u);
  WordStream words({.seed = seed, .step = epoch, .worker = 0, .purpose = DrawPurpose::kShuffle});
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[words.below(static_cast<std::uint32_t>(i + 1))]);
}

}  // namespace terngrad
