// Signs of several workers for majority votes, with the expected results.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "kernels/codes/ternarize.h"
#include "kernels/codes/votes.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::testing {

/// One slice. The workers' signs are packed as bits, or summed over `workers_each` consecutive workers in lanes.
struct VoteCase {
  int num_workers = 3;
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t block_elements = 0;
  bool lanes = false;
  int workers_each = 1;          // workers per payload, lanes only
  std::size_t misalignment = 0;  // output: offset in elements
  std::uint64_t seed = 1;

  CodeFormat format() const { return lanes ? CodeFormat::kLanes : CodeFormat::kBits; }
  std::string text() const {
    return to_string(format()) + " of " + std::to_string(num_workers) + ", " + std::to_string(count) + " from " +
           std::to_string(first) + ", blocks of " + std::to_string(block_elements) + ", out + " +
           std::to_string(misalignment);
  }
};

/// Device memory of a case.
class PreparedVotes {
 public:
  PreparedVotes(const VoteCase& c, Stream& stream)
      : case_(c), out_(std::vector<float>(static_cast<std::size_t>(c.count), -99.0f), c.misalignment, stream) {
    const auto n = static_cast<std::size_t>(c.count);
    std::mt19937_64 random(c.seed);
    std::vector<int> negative(n);
    const int width = c.lanes ? lane_bits(c.num_workers, 1) : 1;
    const auto per_word = static_cast<std::size_t>(c.lanes ? lanes_per_word(width) : 64);
    std::vector<std::uint64_t> words;
    for (int worker = 0; worker < c.num_workers; ++worker) {
      if (worker % c.workers_each == 0) words.assign((n + per_word - 1) / per_word, 0);
      for (std::size_t i = 0; i < n; ++i) {
        // Probability 1/2, so that ties and close votes are frequent.
        const bool is_negative = random() % 2 == 0;
        negative[i] += is_negative ? 1 : 0;
        words[i / per_word] += std::uint64_t{is_negative} << (i % per_word * static_cast<std::size_t>(width));
      }
      if (worker % c.workers_each == c.workers_each - 1 || worker + 1 == c.num_workers) add_payload(words, stream);
    }
    std::vector<float> scales = gaussian(static_cast<std::size_t>(num_blocks(c.first, c.count, c.block_elements)), 99);
    for (float& scale : scales) scale = std::fabs(scale);
    scales_ = to_device<float>(scales, stream);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t at = c.first + static_cast<std::int64_t>(i);
      const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
      const int majority = c.num_workers - 2 * negative[i];
      const int vote = majority > 0 ? 1 : majority < 0 ? -1 : 0;
      expected_.push_back(scales[static_cast<std::size_t>(block)] * static_cast<float>(vote));
    }
  }

  CodeSumTask task() {
    return {.format = case_.format(),
            .payloads = payloads_,
            .payload_bytes = bytes_,
            .num_workers = case_.num_workers,
            .first = case_.first,
            .count = case_.count,
            .block_elements = case_.block_elements,
            .scales = scales_.data(),
            .out = out_.data(),
            .lane_levels = 1};
  }
  void expect_majority() { expect_same_values(out_.values(), expected_, case_.text()); }

 private:
  void add_payload(std::span<const std::uint64_t> words, Stream& stream) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    const std::int64_t size = payload_bytes(case_.format(), case_.count, case_.num_workers, 1);
    memory_.push_back(to_device<std::uint8_t>({begin, static_cast<std::size_t>(size)}, stream));
    payloads_.push_back(memory_.back().data());
    bytes_.push_back(size);
  }

  VoteCase case_;
  GuardedArray<float> out_;
  Buffer<float> scales_;
  std::vector<Buffer<std::uint8_t>> memory_;
  std::vector<const std::uint8_t*> payloads_;
  std::vector<std::int64_t> bytes_;
  std::vector<float> expected_;
};

/// Counts the votes of all cases in one call and compares the results.
inline void expect_majorities(std::span<const VoteCase> cases, Stream& stream) {
  std::vector<std::unique_ptr<PreparedVotes>> prepared;
  std::vector<CodeSumTask> tasks;
  for (const VoteCase& c : cases) {
    prepared.push_back(std::make_unique<PreparedVotes>(c, stream));
    tasks.push_back(prepared.back()->task());
  }
  VoteCounter(stream.device()).run(tasks, stream);
  for (auto& votes : prepared) votes->expect_majority();
}

}  // namespace terngrad::testing
