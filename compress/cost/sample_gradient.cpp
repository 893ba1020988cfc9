#include "compress/cost/sample_gradient.h"

#include "kernels/random/philox.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

// A sum of four integers that are uniform in [0, 65535].
constexpr float kMeanOfSum = 131070.0f;
constexpr float kDeviationOfSum = 37837.23f;  // sqrt(4 (65536^2 - 1) / 12)
constexpr float kScale = 0.01f / kDeviationOfSum;

float sum_of_halves(std::uint32_t a, std::uint32_t b) {
  return static_cast<float>((a & 0xffffu) + (a >> 16) + (b & 0xffffu) + (b >> 16));
}

}  // namespace

void fill_sample_gradient(std::span<float> values, std::uint64_t seed, int num_threads) {
  const DrawKey key{seed, 0, 0, DrawPurpose::kSyntheticData};
  const auto num_blocks = static_cast<std::int64_t>((values.size() + 1) / 2);
  parallel_for(num_threads, num_blocks, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (auto block = static_cast<std::size_t>(begin); block < static_cast<std::size_t>(end); ++block) {
      const auto words = draw_block(key, block);
      values[2 * block] = (sum_of_halves(words[0], words[1]) - kMeanOfSum) * kScale;
      if (2 * block + 1 < values.size()) {
        values[2 * block + 1] = (sum_of_halves(words[2], words[3]) - kMeanOfSum) * kScale;
      }
    }
  });
}

}  // namespace terngrad
