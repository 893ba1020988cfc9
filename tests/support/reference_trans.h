// Scalar reference of format trans: masks of up to 4096 codes, coded by rANS with divisions, one byte at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace terngrad::reference {

/// rANS frequencies (of 4096) of the mask bytes if `level` of 64 codes are zero.
inline std::vector<std::uint32_t> mask_frequencies(unsigned level) {
  std::vector<std::uint32_t> frequencies(256);
  std::uint32_t others = 0;
  for (unsigned byte = 1; byte < 256; ++byte) {
    std::uint64_t product = 1;
    for (unsigned bit = 0; bit < 8; ++bit) product *= (byte >> bit & 1) != 0 ? 64 - level : level;
    frequencies[byte] = std::max(1u, static_cast<std::uint32_t>(product / (std::uint64_t{1} << 36)));
    others += frequencies[byte];
  }
  frequencies[0] = 4096 - others;
  return frequencies;
}

/// Mask record of one chunk: level, a zero byte, coded masks; or two zero bytes and the raw masks if that is not
/// longer.
inline std::vector<std::uint8_t> code_masks(std::span<const std::int8_t> codes) {
  std::vector<std::uint8_t> masks((codes.size() + 7) / 8, 0);
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    zeros += codes[i] == 0 ? 1u : 0u;
    masks[i / 8] = static_cast<std::uint8_t>(masks[i / 8] | (codes[i] != 0 ? 1u << (i % 8) : 0u));
  }
  const std::size_t level = std::clamp<std::size_t>((64 * zeros + codes.size() / 2) / codes.size(), 12, 63);
  const std::vector<std::uint32_t> frequencies = mask_frequencies(static_cast<unsigned>(level));
  std::uint32_t states[2] = {1u << 15, 1u << 15};
  std::vector<std::uint32_t> words;  // in order of emission
  for (std::size_t i = masks.size(); i-- > 0;) {
    std::uint32_t& x = states[i % 2];
    std::uint32_t start = 0;
    for (unsigned byte = 0; byte < masks[i]; ++byte) start += frequencies[byte];
    const std::uint32_t f = frequencies[masks[i]];
    if (x / (1u << 19) >= f) {
      words.push_back(x % 65536);
      x /= 65536;
    }
    x = x / f * 4096 + x % f + start;
  }
  std::vector<std::uint8_t> coded = {static_cast<std::uint8_t>(level), 0};
  const auto append = [&](std::uint32_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) coded.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  append(states[0], 4);
  append(states[1], 4);
  for (std::size_t i = words.size(); i-- > 0;) append(words[i], 2);
  if (coded.size() < 2 + masks.size()) return coded;
  masks.insert(masks.begin(), {0, 0});
  return masks;
}

inline std::vector<std::uint8_t> pack_trans(std::span<const std::int8_t> codes) {
  std::vector<std::uint8_t> offsets;
  std::vector<std::uint8_t> records;
  const auto append_offset = [&] {
    for (int i = 0; i < 4; ++i) offsets.push_back(static_cast<std::uint8_t>(records.size() / 2 >> (8 * i)));
  };
  for (std::size_t begin = 0; begin < codes.size(); begin += 4096) {
    append_offset();
    const auto chunk = codes.subspan(begin, std::min<std::size_t>(4096, codes.size() - begin));
    const std::vector<std::uint8_t> masks = code_masks(chunk);
    records.insert(records.end(), masks.begin(), masks.end());
    int used = 0;
    for (const std::int8_t code : chunk) {
      if (code == 0) continue;
      if (used % 8 == 0) records.push_back(0);
      if (code < 0) records.back() = static_cast<std::uint8_t>(records.back() | 1u << (used % 8));
      ++used;
    }
    if (records.size() % 2 != 0) records.push_back(0);
  }
  append_offset();
  if (records.size() % 4 != 0) records.insert(records.end(), 2, 0);
  offsets.insert(offsets.end(), records.begin(), records.end());
  return offsets;
}

}  // namespace terngrad::reference
