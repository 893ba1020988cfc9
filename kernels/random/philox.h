// Counter-based random numbers: Philox4x32-10 and the assignment of its counters to draws.
#pragma once

#include <array>
#include <cstdint>

namespace terngrad {

/// Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// A bijection of the 128-bit counter for every 64-bit key. The published known-answer vectors are tests.
constexpr std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                     std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Purpose of a draw. Draws of different purposes never share a counter. The values are part of the format.
enum class DrawPurpose : std::uint8_t {
  kTernarize = 1,
  kTernarizeRefine = 2,
  kDownlink = 3,
  kDownlinkRefine = 4,
  kDropout = 5,
  kAugmentation = 6,
  kShuffle = 7,
  kInitializer = 8,
  kSyntheticData = 9,
  kQuantize = 10,
  kQuantizeRefine = 11,
  kRotate = 12,
  kSelect = 13,
  kFactorInit = 14,
};

/// Key of a stream of draws: equal keys give equal bits on every backend, with any number of threads or processes.
struct DrawKey {
  std::uint64_t seed = 0;    // the Philox key, low word first
  std::uint64_t step = 0;    // training step; 40 bits
  std::uint32_t worker = 0;  // global worker number; 0 for draws that depend on the data only
  DrawPurpose purpose = DrawPurpose::kTernarize;
};

/// The 128-bit counter of block `block` (48 bits) of a stream:
/// c0 = block bits 0-31; c1 = worker; c2 = step bits 0-31; c3 = block bits 32-47 | step bits 32-39 << 16 | purpose
/// << 24.
constexpr std::array<std::uint32_t, 4> draw_counter(const DrawKey& key, std::uint64_t block) {
  return {static_cast<std::uint32_t>(block), key.worker, static_cast<std::uint32_t>(key.step),
          static_cast<std::uint32_t>(block >> 32 & 0xffff) | static_cast<std::uint32_t>(key.step >> 32 & 0xff) << 16 |
              static_cast<std::uint32_t>(key.purpose) << 24};
}

/// 128 random bits: block `block` of the stream `key`.
constexpr std::array<std::uint32_t, 4> draw_block(const DrawKey& key, std::uint64_t block) {
  return philox4x32_10(draw_counter(key, block),
                       {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
}

/// 16 random bits for draw `index`: block index / 8, word (index % 8) / 2, low half first.
constexpr std::uint32_t draw16(const DrawKey& key, std::uint64_t index) {
  return draw_block(key, index / 8)[index % 8 / 2] >> (index % 2 * 16) & 0xffffu;
}

/// 32 random bits for draw `index`: block index / 4, word index % 4.
constexpr std::uint32_t draw32(const DrawKey& key, std::uint64_t index) {
  return draw_block(key, index / 4)[index % 4];
}

/// A uniform value in [0, 1) with 24 random bits for draw `index`: draw32 / 2^8 / 2^24.
constexpr float draw_uniform(const DrawKey& key, std::uint64_t index) {
  return static_cast<float>(draw32(key, index) >> 8) * 0x1p-24f;
}

}  // namespace terngrad
