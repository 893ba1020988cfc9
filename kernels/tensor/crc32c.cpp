#include "kernels/tensor/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace terngrad {
namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82f63b78u;

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}();

std::uint32_t extend_with_table(std::span<const std::uint8_t> bytes, std::uint32_t state) {
  for (const std::uint8_t byte : bytes) state = kTable[(state ^ byte) & 0xff] ^ (state >> 8);
  return state;
}

#if defined(__x86_64__)
/// Bytes of each of three streams that are summed side by side: the instruction takes 3 cycles but starts every cycle.
constexpr std::size_t kStreamBytes = 1024;

/// The effect of kStreamBytes zero bytes on each byte of the state, by linearity.
struct SkipTable {
  std::array<std::array<std::uint32_t, 256>, 4> effect;
};
const SkipTable& skip_table() {
  static const SkipTable table = [] {
    std::array<std::uint32_t, 32> of_bit{};
    for (std::size_t bit = 0; bit < 32; ++bit) {
      std::uint32_t state = std::uint32_t{1} << bit;
      for (std::size_t i = 0; i < kStreamBytes; ++i) state = kTable[state & 0xff] ^ (state >> 8);
      of_bit[bit] = state;
    }
    SkipTable result{};
    for (std::size_t part = 0; part < 4; ++part) {
      for (std::size_t byte = 0; byte < 256; ++byte) {
        for (std::size_t bit = 0; bit < 8; ++bit) {
          if ((byte >> bit & 1) != 0) result.effect[part][byte] ^= of_bit[8 * part + bit];
        }
      }
    }
    return result;
  }();
  return table;
}

std::uint32_t skip_stream(std::uint32_t state) {
  const auto& effect = skip_table().effect;
  return effect[0][state & 0xff] ^ effect[1][state >> 8 & 0xff] ^ effect[2][state >> 16 & 0xff] ^
         effect[3][state >> 24];
}

std::uint64_t load64(const std::uint8_t* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t extend_with_instruction(std::span<const std::uint8_t> bytes,
                                                                        std::uint32_t state) {
  const std::uint8_t* p = bytes.data();
  std::size_t left = bytes.size();
  while (left >= 3 * kStreamBytes) {
    std::uint64_t a = state;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (std::size_t i = 0; i < kStreamBytes; i += 8) {
      a = _mm_crc32_u64(a, load64(p + i));
      b = _mm_crc32_u64(b, load64(p + kStreamBytes + i));
      c = _mm_crc32_u64(c, load64(p + 2 * kStreamBytes + i));
    }
    state = skip_stream(skip_stream(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b)) ^
            static_cast<std::uint32_t>(c);
    p += 3 * kStreamBytes;
    left -= 3 * kStreamBytes;
  }
  std::uint64_t wide = state;
  for (; left >= 8; p += 8, left -= 8) wide = _mm_crc32_u64(wide, load64(p));
  state = static_cast<std::uint32_t>(wide);
  for (; left > 0; ++p, --left) state = _mm_crc32_u8(state, *p);
  return state;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool have_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (have_instruction) return ~extend_with_instruction(bytes, ~crc);
#endif
  return ~extend_with_table(bytes, ~crc);
}

}  // namespace terngrad
