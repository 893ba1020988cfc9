#include "kernels/codes/mask_coding.h"

#include <algorithm>
#include <cstring>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kNumLevels = kMaxMaskLevel - kMinMaskLevel + 1;
/// States are in [kFirstState, 2^31); both start at kFirstState.
constexpr std::uint32_t kFirstState = std::uint32_t{1} << 15;
constexpr std::uint32_t kEndOfStates = std::uint32_t{1} << 31;
constexpr std::int64_t kStateBytes = 2 * sizeof(std::uint32_t);
constexpr std::int64_t kLevelBytes = 2;  // L and a zero

consteval bool every_frequency_is_positive() {
  for (int level = kMinMaskLevel; level <= kMaxMaskLevel; ++level) {
    const std::uint32_t of_zero = mask_frequencies(level)[0];
    // Subtracting too much wraps around.
    if (of_zero == 0 || of_zero >= kMaskFrequencySum) return false;
  }
  return true;
}
static_assert(every_frequency_is_positive());

/// Encoding a mask byte of frequency f into a state x: x / f * 4096 + x mod f + start, computed as x + start + x / f *
/// (4096 - f).
struct EncodeEntry {
  std::uint32_t reciprocal;  // see mask_reciprocal(f)
  std::uint32_t end;         // larger or equal states (f 2^19) first emit their low 16 bits
  std::uint16_t start;       // sum of the frequencies of smaller bytes
  std::uint16_t rest;        // 4096 - f
  std::int32_t shift;
};

struct Tables {
  EncodeEntry encode[kNumLevels][256];
  /// Indexed by the low 12 bits of a state: f | byte << 12 | (low bits - start) << 20.
  std::uint32_t decode[kNumLevels][kMaskFrequencySum];

  Tables() {
    for (int level = kMinMaskLevel; level <= kMaxMaskLevel; ++level) fill(level);
  }

  void fill(int level) {
    const std::array<std::uint32_t, 9> frequencies = mask_frequencies(level);
    std::uint32_t start = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::uint32_t f = frequencies[static_cast<unsigned>(std::popcount(byte))];
      const MaskReciprocal division = mask_reciprocal(f);
      encode[level - kMinMaskLevel][byte] = {.reciprocal = division.reciprocal,
                                             .end = f << 19,
                                             .start = static_cast<std::uint16_t>(start),
                                             .rest = static_cast<std::uint16_t>(kMaskFrequencySum - f),
                                             .shift = division.shift};
      for (std::uint32_t above = 0; above < f; ++above) {
        decode[level - kMinMaskLevel][start + above] = f | byte << 12 | above << 20;
      }
      start += f;
    }
  }
};

/// Built on first use; decoding a chunk uses 16 KiB, the table of its level.
const Tables& tables() {
  static const Tables made;
  return made;
}

constexpr std::int64_t num_mask_bytes(std::int64_t count) { return (count + 7) / 8; }

std::int64_t num_zeros(const std::uint8_t* masks, std::int64_t count) {
  const std::int64_t num_bytes = num_mask_bytes(count);
  std::int64_t nonzeros = 0;
  std::int64_t i = 0;
  for (; i + 8 <= num_bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, masks + i, sizeof(word));
    nonzeros += std::popcount(word);
  }
  for (; i < num_bytes; ++i) nonzeros += std::popcount(masks[i]);
  return count - nonzeros;
}

/// A chunk's coded masks.
struct CodedMasks {
  std::uint32_t states[2];
  std::uint16_t words[kMaxMaskBytes + 1];  // at most one per byte; the first element is written but not used
  std::int64_t first_word;

  std::int64_t num_bytes() const { return kStateBytes + 2 * (kMaxMaskBytes + 1 - first_word); }
};

/// Encodes the bytes from last to first, byte i with state i % 2: two independent dependency chains. Words fill the
/// array from its end, so that the last emitted word comes first.
void encode_with(const EncodeEntry (&entries)[256], const std::uint8_t* masks, std::int64_t num_bytes,
                 CodedMasks& coded) {
  std::uint16_t* next = coded.words + kMaxMaskBytes + 1;
  const auto put = [&](std::uint32_t x, std::uint8_t byte) {
    const EncodeEntry& entry = entries[byte];
    const bool emits = x >= entry.end;  // branch-free: the branch would be unpredictable
    next[-1] = static_cast<std::uint16_t>(x);
    next -= emits;
    x = emits ? x >> 16 : x;
    const auto quotient = static_cast<std::uint32_t>(std::uint64_t{x} * entry.reciprocal >> entry.shift);
    return x + entry.start + quotient * entry.rest;
  };
  std::uint32_t even = kFirstState;
  std::uint32_t odd = kFirstState;
  std::int64_t i = num_bytes;
  if (i % 2 != 0) even = put(even, masks[--i]);
  for (; i > 0; i -= 2) {
    odd = put(odd, masks[i - 1]);
    even = put(even, masks[i - 2]);
  }
  coded.states[0] = even;
  coded.states[1] = odd;
  coded.first_word = next - coded.words;
}

/// Encodes masks into `coded`. Returns true if they are shorter than uncoded.
bool are_coded(const std::uint8_t* masks, std::int64_t count, int level, CodedMasks& coded) {
  const std::int64_t num_bytes = num_mask_bytes(count);
  if (num_bytes <= kStateBytes) return false;
  encode_with(tables().encode[level - kMinMaskLevel], masks, num_bytes, coded);
  return coded.num_bytes() < num_bytes;
}

struct Decoded {
  std::uint32_t states[2];  // final states
  std::int64_t num_words;
};

/// Decodes arbitrary states and words; a byte consumes at most one word.
/// @param words  [kMaxMaskBytes + 1]
Decoded decode_with(const std::uint32_t (&entries)[kMaskFrequencySum], const std::uint32_t (&states)[2],
                    const std::uint16_t* words, std::int64_t num_bytes, std::uint8_t* masks) {
  const std::uint16_t* next = words;
  // The next two words are loaded early, before it is known which of them a state consumes. Shifts by 0 or 16 replace
  // an unpredictable branch.
  const auto take = [&](std::uint32_t& x, std::uint32_t& pair) {
    const std::uint32_t entry = entries[x % kMaskFrequencySum];
    x = entry % kMaskFrequencySum * (x >> kMaskFrequencyBits) + (entry >> 20);
    const auto num_words = static_cast<std::uint32_t>(x < kFirstState);
    const std::uint32_t shift = 16 * num_words;
    x = x << shift | (pair & ((1u << shift) - 1));
    pair >>= shift;
    next += num_words;
    return static_cast<std::uint8_t>(entry >> 12);
  };
  std::uint32_t even = states[0];
  std::uint32_t odd = states[1];
  std::int64_t i = 0;
  for (; i < num_bytes; i += 2) {
    std::uint32_t pair;
    std::memcpy(&pair, next, sizeof(pair));
    masks[i] = take(even, pair);
    if (i + 1 == num_bytes) break;
    masks[i + 1] = take(odd, pair);
  }
  return {{even, odd}, next - words};
}

/// Decodes from the bytes after L: the states and all available words, zero-padded.
Decoded decode_bytes(int level, std::span<const std::uint8_t> bytes, std::int64_t num_bytes, std::uint8_t* masks) {
  std::uint32_t states[2];
  std::memcpy(states, bytes.data(), sizeof(states));
  std::uint16_t words[kMaxMaskBytes + 1];
  // Bytes after the words (signs or another chunk) are copied too: the number of words is known only at the end.
  const std::size_t copied = std::min(bytes.size() - kStateBytes, sizeof(words));
  std::memcpy(words, bytes.data() + kStateBytes, copied);
  std::memset(reinterpret_cast<std::uint8_t*>(words) + copied, 0, sizeof(words) - copied);
  return decode_with(tables().decode[level - kMinMaskLevel], states, words, num_bytes, masks);
}

void fill_up(std::uint8_t* masks, std::int64_t num_bytes) {
  for (std::int64_t i = num_bytes; i % 4 != 0; ++i) masks[i] = 0;
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  TERNGRAD_THROW(CommunicationError, "[trans] ", parts...);
}

/// Checks coded masks, whose L is valid. @returns their length in bytes
std::int64_t check_coded(int level, std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks) {
  const std::int64_t num_bytes = num_mask_bytes(count);
  if (static_cast<std::int64_t>(bytes.size()) < kStateBytes)
    refuse("a chunk of ", bytes.size(), " bytes has no states");
  std::uint32_t states[2];
  std::memcpy(states, bytes.data(), sizeof(states));
  for (const std::uint32_t state : states) {
    if (state < kFirstState || state >= kEndOfStates) refuse("state ", state, " is not from 2^15 to 2^31 - 1");
  }
  const Decoded decoded = decode_bytes(level, bytes, num_bytes, masks);
  const std::int64_t used = kStateBytes + 2 * decoded.num_words;
  if (used > static_cast<std::int64_t>(bytes.size())) refuse("a chunk lacks words of its masks");
  if (decoded.states[0] != kFirstState || decoded.states[1] != kFirstState) {
    refuse("the states of a chunk end at ", decoded.states[0], " and ", decoded.states[1], ", not at ", kFirstState);
  }
  if (used >= num_bytes) refuse("coded masks of ", used, " bytes would have ", num_bytes, " as they are");
  return used;
}

}  // namespace

std::int64_t encode_masks(const std::uint8_t* masks, std::int64_t count, std::uint8_t* out) {
  const int level = mask_level(count, num_zeros(masks, count));
  CodedMasks coded;
  out[1] = 0;
  if (!are_coded(masks, count, level, coded)) {
    out[0] = kRawMasks;
    std::memcpy(out + kLevelBytes, masks, static_cast<std::size_t>(num_mask_bytes(count)));
    return kLevelBytes + num_mask_bytes(count);
  }
  out[0] = static_cast<std::uint8_t>(level);
  std::memcpy(out + kLevelBytes, coded.states, sizeof(coded.states));
  std::memcpy(out + kLevelBytes + kStateBytes, coded.words + coded.first_word,
              static_cast<std::size_t>(coded.num_bytes() - kStateBytes));
  return kLevelBytes + coded.num_bytes();
}

std::int64_t decode_masks(std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks) {
  const std::int64_t num_bytes = num_mask_bytes(count);
  fill_up(masks, num_bytes);
  if (bytes[0] == kRawMasks) {
    std::memcpy(masks, bytes.data() + kLevelBytes, static_cast<std::size_t>(num_bytes));
    return kLevelBytes + num_bytes;
  }
  const Decoded decoded = decode_bytes(bytes[0], bytes.subspan(kLevelBytes), num_bytes, masks);
  return kLevelBytes + kStateBytes + 2 * decoded.num_words;
}

std::int64_t check_masks(std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks) {
  const std::int64_t num_bytes = num_mask_bytes(count);
  if (static_cast<std::int64_t>(bytes.size()) < kLevelBytes) refuse("a chunk of ", bytes.size(), " bytes has no masks");
  const int level = bytes[0];
  if ((level != kRawMasks && (level < kMinMaskLevel || level > kMaxMaskLevel)) || bytes[1] != 0) {
    refuse("a chunk begins with the bytes ", level, " and ", int{bytes[1]}, ", not with 0 or ", kMinMaskLevel, " to ",
           kMaxMaskLevel, ", and 0");
  }
  fill_up(masks, num_bytes);
  const std::span<const std::uint8_t> rest = bytes.subspan(kLevelBytes);
  std::int64_t used = num_bytes;
  if (level != kRawMasks) {
    used = check_coded(level, rest, count, masks);
  } else if (static_cast<std::int64_t>(rest.size()) < num_bytes) {
    refuse("a chunk has ", rest.size(), " of ", num_bytes, " mask bytes");
  } else {
    std::memcpy(masks, rest.data(), static_cast<std::size_t>(num_bytes));
  }
  if (count % 8 != 0 && masks[num_bytes - 1] >> (count % 8) != 0) refuse("mask bits after the last code are not zero");
  const int own_level = mask_level(count, num_zeros(masks, count));
  if (level != kRawMasks && level != own_level) refuse("masks of level ", own_level, " are coded for ", level);
  CodedMasks coded;
  if (level == kRawMasks && are_coded(masks, count, own_level, coded)) {
    refuse("masks as they are have ", num_bytes, " bytes, coded ", coded.num_bytes());
  }
  return kLevelBytes + used;
}

}  // namespace terngrad
