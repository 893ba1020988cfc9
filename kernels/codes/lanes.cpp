#include "kernels/codes/lanes.h"

#include <algorithm>
#include <cstring>

namespace terngrad {

void unpack_lanes(const std::uint8_t* payload, int bits, std::int64_t first, std::span<std::int32_t> out) {
  const int per_word = lanes_per_word(bits);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  payload += first / per_word * 8;
  auto lane = static_cast<int>(first % per_word);
  for (std::size_t i = 0; i < out.size(); lane = 0) {
    std::uint64_t word;
    std::memcpy(&word, payload, sizeof(word));
    payload += sizeof(word);
    word >>= lane * bits;
    const std::size_t end = std::min(out.size(), i + static_cast<std::size_t>(per_word - lane));
    for (; i < end; ++i, word >>= bits) out[i] = static_cast<std::int32_t>(word & mask);
  }
}

}  // namespace terngrad
