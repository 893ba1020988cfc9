// Conversions between bit planes and packed formats.
#include "kernels/codes/ternary_pack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes/cpu/ternary_pack.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

#include <array>
#include <bit>
#include <cstring>

#include "kernels/codes/cpu/scatter_bits-inl.h"
#include "kernels/codes/ternarize.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {

/// Moves bit i of `bits` to bit 2i.
HWY_INLINE std::uint64_t Spread(std::uint32_t bits) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(bits, 0x5555555555555555u);
#else
  std::uint64_t x = bits;
  x = (x | x << 16) & 0x0000ffff0000ffffu;
  x = (x | x << 8) & 0x00ff00ff00ff00ffu;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
  x = (x | x << 2) & 0x3333333333333333u;
  return (x | x << 1) & 0x5555555555555555u;
#endif
}

/// Extracts the bits of `bits` at the set bits of `mask` to the low end (pext).
HWY_INLINE std::uint64_t Gather(std::uint64_t bits, std::uint64_t mask) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return _pext_u64(bits, mask);
#else
  std::uint64_t result = 0;
  for (int place = 0; mask != 0; mask &= mask - 1, ++place) {
    result |= (bits >> std::countr_zero(mask) & 1) << place;
  }
  return result;
#endif
}

void TMaskToT2(const std::uint8_t* HWY_RESTRICT masks, std::span<const std::uint8_t> signs, std::int64_t count,
               std::uint32_t* HWY_RESTRICT words) {
  std::size_t sign = 0;  // consumed bits
  for (std::int64_t i = 0; i < count; i += 32) {
    std::uint32_t mask;
    std::memcpy(&mask, masks + i / 8, sizeof(mask));
    std::uint64_t window = 0;
    const std::size_t byte = sign / 8;
    if (byte + sizeof(window) <= signs.size()) {
      std::memcpy(&window, signs.data() + byte, sizeof(window));
    } else if (byte < signs.size()) {
      std::memcpy(&window, signs.data() + byte, signs.size() - byte);
    }
    const std::uint32_t negative = static_cast<std::uint32_t>(ScatterBits(window >> (sign % 8), mask));
    sign += static_cast<std::size_t>(std::popcount(mask));
    const std::uint64_t pair = Spread(mask) | Spread(negative) << 1;
    std::memcpy(words + i / 16, &pair, i + 16 < count ? 8 : 4);
  }
}

void PlanesToT2(const CodePlanes& planes, std::int64_t count, std::uint32_t* HWY_RESTRICT words) {
  const auto pair = [&](std::int64_t i, int shift) {
    return Spread(static_cast<std::uint32_t>(planes.nonzero[i] >> shift)) |
           Spread(static_cast<std::uint32_t>(planes.negative[i] >> shift)) << 1;
  };
  std::int64_t i = 0;
  for (; 64 * (i + 1) <= count; ++i) {
    const std::uint64_t four[2] = {pair(i, 0), pair(i, 32)};
    std::memcpy(words + 4 * i, four, sizeof(four));
  }
  if (64 * i < count) {
    const std::uint64_t four[2] = {pair(i, 0), pair(i, 32)};
    std::memcpy(words + 4 * i, four, static_cast<std::size_t>((count - 64 * i + 15) / 16) * sizeof(std::uint32_t));
  }
}

std::int64_t CompactSigns(const CodePlanes& planes, std::int64_t count, std::uint8_t* HWY_RESTRICT signs) {
  std::uint64_t pending = 0;  // bits not yet written
  int num_pending = 0;
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < (count + 63) / 64; ++i) {
    const std::uint64_t mask = planes.nonzero[i];
    const std::uint64_t bits = Gather(planes.negative[i], mask);
    const int added = std::popcount(mask);
    pending |= bits << num_pending;
    if (num_pending + added >= 64) {
      std::memcpy(signs + bytes, &pending, 8);
      bytes += 8;
      pending = num_pending == 0 ? 0 : bits >> (64 - num_pending);
      num_pending = num_pending + added - 64;
    } else {
      num_pending += added;
    }
  }
  const std::int64_t rest = (num_pending + 7) / 8;
  std::memcpy(signs + bytes, &pending, static_cast<std::size_t>(rest));
  return bytes + rest;
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
namespace {

HWY_EXPORT(PlanesToT2);
HWY_EXPORT(CompactSigns);
HWY_EXPORT(TMaskToT2);

/// The t5 byte for five t2 codes in 10 bits.
constexpr std::array<std::uint8_t, 1024> kT5OfT2 = [] {
  std::array<std::uint8_t, 1024> table{};
  for (unsigned ten = 0; ten < 1024; ++ten) {
    unsigned value = 0;
    unsigned weight = 1;
    for (unsigned i = 0; i < 5; ++i, weight *= 3) {
      const unsigned code = ten >> (2 * i) & 3;  // 00 zero, 01 plus, 11 minus
      value += (code == 0 ? 1 : code == 1 ? 2 : 0) * weight;
    }
    table[ten] = static_cast<std::uint8_t>(value);
  }
  return table;
}();

struct T5Table {
  std::int8_t codes[256][8];
};
constexpr T5Table kT5Table = [] {
  T5Table table{};
  for (unsigned byte = 0; byte < 243; ++byte) {
    unsigned rest = byte;
    for (unsigned i = 0; i < 5; ++i, rest /= 3)
      table.codes[byte][i] = static_cast<std::int8_t>(static_cast<int>(rest % 3) - 1);
  }
  return table;
}();

}  // namespace

void tmask_to_t2(const std::uint8_t* masks, std::span<const std::uint8_t> signs, std::int64_t count,
                 std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(TMaskToT2)(masks, signs, count, words);
}

void planes_to_t2(const CodePlanes& planes, std::int64_t count, std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(PlanesToT2)(planes, count, words);
}

std::int64_t compact_signs(const CodePlanes& planes, std::int64_t count, std::uint8_t* signs) {
  return HWY_DYNAMIC_DISPATCH(CompactSigns)(planes, count, signs);
}

void t2_to_t5(const std::uint32_t* words, std::int64_t count, std::uint8_t* bytes) {
  const auto* source = reinterpret_cast<const std::uint8_t*>(words);
  const std::int64_t whole = count / 5;
  for (std::int64_t j = 0; j < whole; ++j) {
    std::uint32_t window;
    std::memcpy(&window, source + (10 * j >> 3), 4);
    bytes[j] = kT5OfT2[window >> (10 * j & 7) & 1023];
  }
  if (count % 5 != 0) {
    // Missing codes have digit 0, as code -1.
    unsigned value = 0;
    unsigned weight = 1;
    for (std::int64_t i = 5 * whole; i < count; ++i, weight *= 3) {
      const unsigned code = words[i / 16] >> (2 * (i % 16)) & 3;
      value += (code == 0 ? 1 : code == 1 ? 2 : 0) * weight;
    }
    bytes[whole] = static_cast<std::uint8_t>(value);
  }
}

void t2_to_lanes(const std::uint32_t* words, std::int64_t count, int bits, std::uint64_t* lanes) {
  constexpr std::uint8_t kLaneOfT2[4] = {1, 2, 0, 0};
  const int per_word = lanes_per_word(bits);
  std::int64_t i = 0;
  while (i < count) {
    std::uint64_t lane_word = 0;
    for (int lane = 0; lane < per_word && i < count; ++lane, ++i) {
      lane_word |= std::uint64_t{kLaneOfT2[words[i / 16] >> (2 * (i % 16)) & 3]} << (lane * bits);
    }
    *lanes++ = lane_word;
  }
}

const std::int8_t (&t5_table())[256][8] { return kT5Table.codes; }

}  // namespace terngrad::cpu
#endif
