#include "kernels/codes/ternary_pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/codes/code_sum.h"
#include "kernels/codes/codebook_codes.h"
#include "kernels/codes/cuda/ternary_pack.h"
#include "kernels/codes/exponents.h"
#include "kernels/codes/fp8.h"
#include "kernels/codes/lanes.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/signs.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/trans_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

std::uint32_t word_at(std::span<const std::uint8_t> bytes, std::int64_t offset) {
  std::uint32_t word;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

void check_t2(const PackedCodes& codes) {
  std::uint32_t impossible = 0;
  const std::int64_t num_words = static_cast<std::int64_t>(codes.payload.size()) / 4;
  for (std::int64_t word = 0; word < num_words; ++word) {
    const std::uint32_t bits = word_at(codes.payload, 4 * word);
    impossible |= bits >> 1 & ~bits & 0x55555555u;
  }
  if (impossible != 0) TERNGRAD_THROW(CommunicationError, "[t2] the payload holds the impossible code 10");
  if (codes.num_codes % 16 != 0 && word_at(codes.payload, 4 * (num_words - 1)) >> (2 * (codes.num_codes % 16)) != 0) {
    TERNGRAD_THROW(CommunicationError, "[t2] padding after the last code is not zero");
  }
}

void check_t5(const PackedCodes& codes) {
  const auto used = static_cast<std::size_t>((codes.num_codes + 4) / 5);
  for (std::size_t i = 0; i < codes.payload.size(); ++i) {
    const unsigned byte = codes.payload[i];
    if (byte > 242) TERNGRAD_THROW(CommunicationError, "[t5] byte ", i, " is ", byte, ", above 242");
    if (i >= used && byte != 0) TERNGRAD_THROW(CommunicationError, "[t5] padding byte ", i, " is not zero");
  }
  if (codes.num_codes % 5 != 0) {
    constexpr unsigned kPowersOf3[] = {1, 3, 9, 27, 81};
    const unsigned last = codes.payload[used - 1];
    if (last >= kPowersOf3[codes.num_codes % 5]) {
      TERNGRAD_THROW(CommunicationError, "[t5] the last byte is ", last,
                     ", its digits after the last code are not zero");
    }
  }
}

void check_tmask(const PackedCodes& codes) {
  const TMaskParts parts = tmask_parts(codes.num_codes);
  std::int64_t signs = 0;
  for (std::int64_t chunk = 0; chunk < parts.num_chunks; ++chunk) {
    const std::int64_t offset = word_at(codes.payload, 4 * chunk);
    if (offset != signs) {
      TERNGRAD_THROW(CommunicationError, "[tmask] sign offset of chunk ", chunk, " is ", offset, ", the masks say ",
                     signs);
    }
    std::int64_t nonzeros = 0;
    const std::int64_t first_word = chunk * kChunkElements / 32;
    const std::int64_t end_word = std::min<std::int64_t>(first_word + kChunkElements / 32, (codes.num_codes + 31) / 32);
    for (std::int64_t word = first_word; word < end_word; ++word) {
      nonzeros += std::popcount(word_at(codes.payload, parts.masks_offset + 4 * word));
    }
    signs += (nonzeros + 7) / 8;
  }
  if (codes.num_codes % 32 != 0 && word_at(codes.payload, parts.signs_offset - 4) >> (codes.num_codes % 32) != 0) {
    TERNGRAD_THROW(CommunicationError, "[tmask] mask bits after the last code are not zero");
  }
  if (word_at(codes.payload, 4 * parts.num_chunks) != signs) {
    TERNGRAD_THROW(CommunicationError, "[tmask] length of the signs is ", word_at(codes.payload, 4 * parts.num_chunks),
                   ", the masks say ", signs);
  }
  const std::int64_t expected = parts.signs_offset + (signs + 3) / 4 * 4;
  if (static_cast<std::int64_t>(codes.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[tmask] payload has ", codes.payload.size(), " bytes, its masks ask for ",
                   expected);
  }
}

/// Checks that unused sign bits, in the last byte of a chunk or after all signs, are zero.
void check_tmask_padding(const PackedCodes& codes) {
  const TMaskParts parts = tmask_parts(codes.num_codes);
  const auto signs = codes.payload.subspan(static_cast<std::size_t>(parts.signs_offset));
  std::size_t end = 0;
  for (std::int64_t chunk = 0; chunk < parts.num_chunks; ++chunk) {
    const std::int64_t first_word = chunk * kChunkElements / 32;
    const std::int64_t end_word = std::min<std::int64_t>(first_word + kChunkElements / 32, (codes.num_codes + 31) / 32);
    int nonzeros = 0;
    for (std::int64_t word = first_word; word < end_word; ++word) {
      nonzeros += std::popcount(word_at(codes.payload, parts.masks_offset + 4 * word));
    }
    end = word_at(codes.payload, 4 * (chunk + 1));
    if (nonzeros % 8 != 0 && signs[end - 1] >> (nonzeros % 8) != 0) {
      TERNGRAD_THROW(CommunicationError, "[tmask] sign bits after the last non-zero of chunk ", chunk, " are not zero");
    }
  }
  for (; end < signs.size(); ++end) {
    if (signs[end] != 0) TERNGRAD_THROW(CommunicationError, "[tmask] padding after the signs is not zero");
  }
}

void check_lanes(const PackedCodes& codes) {
  const int bits = lane_bits(codes.num_workers, codes.lane_levels);
  const int per_word = lanes_per_word(bits);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const std::uint64_t most =
      static_cast<std::uint64_t>(codes.lane_levels) * static_cast<std::uint64_t>(codes.num_workers);
  std::int64_t i = 0;
  for (std::size_t offset = 0; offset < codes.payload.size(); offset += 8) {
    std::uint64_t word;
    std::memcpy(&word, codes.payload.data() + offset, 8);
    for (int lane = 0; lane < per_word; ++lane, ++i, word >>= bits) {
      if ((word & mask) > (i < codes.num_codes ? most : 0)) {
        TERNGRAD_THROW(CommunicationError, "[lanes] lane ", i, " holds ", word & mask, ", above ", codes.lane_levels,
                       " * ", codes.num_workers);
      }
    }
    if (word != 0) TERNGRAD_THROW(CommunicationError, "[lanes] unused bits of a word are not zero");
  }
}

/// Unpacks codes [first, end) of a chunk, relative to its start; `signs` begins with the chunk's first sign.
/// @param masks  whole words
void unpack_masked(const std::uint8_t* masks, const std::uint8_t* signs, std::int64_t first, std::int64_t end,
                   std::int16_t* out) {
  std::int64_t sign = 0;
  for (std::int64_t i = 0; i < end; i += 32) {
    std::uint32_t mask;
    std::memcpy(&mask, masks + i / 8, sizeof(mask));
    for (std::int64_t bit = 0; bit < 32 && i + bit < end; ++bit) {
      std::int16_t code = 0;
      if (mask >> bit & 1) {
        code = (signs[sign / 8] >> (sign % 8) & 1) ? -1 : 1;
        ++sign;
      }
      if (i + bit >= first) *out++ = code;
    }
  }
}

/// tmask and trans, chunk by chunk.
void unpack_chunks(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out) {
  const TMaskParts parts = tmask_parts(codes.num_codes);
  TransChunk read;
  const auto end = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t at = first; at < end;) {
    const std::int64_t chunk = at / kChunkElements;
    const std::int64_t begin = chunk * kChunkElements;
    const std::int64_t chunk_end = std::min(begin + kChunkElements, end);
    const std::uint8_t* masks = codes.payload.data() + parts.masks_offset + begin / 8;
    const std::uint8_t* signs = nullptr;
    if (codes.format == TernaryFormat::kTrans) {
      read_trans_chunk(codes.payload, codes.num_codes, chunk, read);
      masks = read.masks;
      signs = read.signs.data();
    } else {
      signs = codes.payload.data() + parts.signs_offset + word_at(codes.payload, 4 * chunk);
    }
    unpack_masked(masks, signs, at - begin, chunk_end - begin, out.data() + (at - first));
    at = chunk_end;
  }
}

void require_range(const PackedCodes& codes, std::int64_t first, std::int64_t count) {
  TERNGRAD_REQUIRE(first >= 0 && first + count <= codes.num_codes, "[unpack] codes ", first, " to ", first + count,
                   " asked for, have ", codes.num_codes);
  TERNGRAD_REQUIRE(holds_integers(codes.format), "[unpack] format ", to_string(codes.format),
                   " holds numbers, not whole codes");
}

/// Requirements of the GPU's lane kernels: aligned words, and the number of workers that they are tested for.
void require_lanes(const void* payload, int num_workers) {
  TERNGRAD_REQUIRE(num_workers <= kMaxSummedWorkers, "[lanes] at most ", kMaxSummedWorkers,
                   " workers can be summed on a GPU, got ", num_workers);
  TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(payload) % sizeof(std::uint64_t) == 0,
                   "[lanes] a payload on a GPU must begin at a multiple of 8 bytes");
}

}  // namespace

void check_payload(const PackedCodes& codes) {
  const std::int64_t most = payload_bytes(codes.format, codes.num_codes, codes.num_workers, codes.lane_levels);
  const auto have = static_cast<std::int64_t>(codes.payload.size());
  const bool fits = has_fixed_size(codes.format)
                        ? have == most
                        : have <= most && have >= min_payload_bytes(codes.format, codes.num_codes);
  if (!fits) {
    TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] payload of ", codes.num_codes, " codes has ",
                   have, " bytes, expected ", has_fixed_size(codes.format) ? "" : "at most ", most);
  }
  switch (codes.format) {
    case TernaryFormat::kT2:
      return check_t2(codes);
    case TernaryFormat::kT5:
      return check_t5(codes);
    case TernaryFormat::kTMask:
      check_tmask(codes);
      return check_tmask_padding(codes);
    case TernaryFormat::kTrans:
      return check_trans(codes.payload, codes.num_codes);
    case TernaryFormat::kLanes:
      return check_lanes(codes);
    case CodeFormat::kQ4:
    case CodeFormat::kQ8:
      return check_levels(codes);
    case CodeFormat::kN8:
    case CodeFormat::kN4:
      return check_exponents(codes);
    case CodeFormat::kE4M3:
      return check_e4m3(codes);
    case CodeFormat::kBits:
      return check_bits(codes);
    case CodeFormat::kE2:
    case CodeFormat::kE3:
    case CodeFormat::kE4:
      return check_codebook(codes);
  }
}

void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out) {
  const auto count = static_cast<std::int64_t>(out.size());
  require_range(codes, first, count);
  if (count == 0) return;
  switch (codes.format) {
    case TernaryFormat::kT2: {
      constexpr std::int16_t kCodeOfT2[4] = {0, 1, 0, -1};
      for (std::int64_t i = 0; i < count; ++i) {
        const auto byte = codes.payload[static_cast<std::size_t>((first + i) / 4)];
        out[static_cast<std::size_t>(i)] = kCodeOfT2[byte >> (2 * ((first + i) % 4)) & 3];
      }
      return;
    }
    case TernaryFormat::kT5: {
      const auto& table = cpu::t5_table();
      std::int64_t i = 0;
      for (; i < count && (first + i) % 5 != 0; ++i) {
        out[static_cast<std::size_t>(i)] =
            table[codes.payload[static_cast<std::size_t>((first + i) / 5)]][(first + i) % 5];
      }
      for (; i + 5 <= count; i += 5) {
        const auto& five = table[codes.payload[static_cast<std::size_t>((first + i) / 5)]];
        for (std::size_t j = 0; j < 5; ++j) out[static_cast<std::size_t>(i) + j] = five[j];
      }
      for (; i < count; ++i) {
        out[static_cast<std::size_t>(i)] =
            table[codes.payload[static_cast<std::size_t>((first + i) / 5)]][(first + i) % 5];
      }
      return;
    }
    case TernaryFormat::kTMask:
    case TernaryFormat::kTrans:
      return unpack_chunks(codes, first, out);
    case TernaryFormat::kLanes: {
      const int bits = lane_bits(codes.num_workers, codes.lane_levels);
      const int bias = lane_bias(codes.num_workers, codes.lane_levels);
      std::int32_t counts[kChunkElements];
      for (std::int64_t done = 0; done < count; done += kChunkElements) {
        const auto part = static_cast<std::size_t>(std::min(kChunkElements, count - done));
        unpack_lanes(codes.payload.data(), bits, first + done, {counts, part});
        for (std::size_t i = 0; i < part; ++i) {
          out[static_cast<std::size_t>(done) + i] = static_cast<std::int16_t>(counts[i] - bias);
        }
      }
      return;
    }
    case CodeFormat::kQ4:
    case CodeFormat::kQ8:
      return unpack_levels(codes, first, out);
    case CodeFormat::kN8:
    case CodeFormat::kN4:
    case CodeFormat::kE4M3:
    case CodeFormat::kBits:
    case CodeFormat::kE2:
    case CodeFormat::kE3:
    case CodeFormat::kE4:
      break;  // refused by require_range
  }
}

void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out, Stream& stream) {
  if (stream.device().is_cpu()) return unpack_codes(codes, first, out);
  require_range(codes, first, static_cast<std::int64_t>(out.size()));
  if (!runs_on_gpus(codes.format)) {
    TERNGRAD_THROW(NotSupported, "[unpack] format ", to_string(codes.format), " has no kernels for GPUs");
  }
  if (out.empty()) return;
  if (codes.format == TernaryFormat::kLanes) require_lanes(codes.payload.data(), codes.num_workers);
  TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(codes.payload.data()) % sizeof(std::uint32_t) == 0,
                   "[unpack] a payload on a GPU must begin at a multiple of 4 bytes");
  cuda::unpack_codes(codes, first, out, stream);
}

std::int64_t pack_codes(std::span<const std::int8_t> codes, TernaryFormat format, int num_workers,
                        std::span<std::uint8_t> payload) {
  const auto n = static_cast<std::int64_t>(codes.size());
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(payload.size()) >= payload_bytes(format, n, num_workers),
                   "[pack] payload too small: need ", payload_bytes(format, n, num_workers), " bytes, have ",
                   payload.size());
  const int levels = format == CodeFormat::kLanes ? 1 : levels_of(format);
  for (const std::int8_t code : codes) {
    TERNGRAD_REQUIRE(code >= -levels && code <= levels, "[pack] codes in format ", to_string(format), " are ", -levels,
                     " to ", levels, ", got ", static_cast<int>(code));
  }
  std::vector<float> values(codes.begin(), codes.end());
  if (levels > 1) {
    // With scaler L, rounding to nearest quantizes each code to itself.
    const auto scaler = static_cast<float>(levels);
    const QuantizeTask task{.gradient = values.data(), .count = n, .scalers = &scaler, .payload = payload.data()};
    Stream cpu(Device::cpu(), 1);
    LevelQuantizer().run({&task, 1}, {.bits = format == CodeFormat::kQ4 ? 4 : 8, .rounding = Rounding::kNearest}, {},
                         cpu);
    return payload_bytes(format, n, 1);
  }
  // With s = 1 and |g| in {0, s}, ternarizing maps each code to itself with certainty.
  const float one = 1.0f;
  TernarizeTask task;
  task.gradient = values.data();
  task.count = n;
  task.scalers = &one;
  task.payload = payload.data();
  Stream stream(Device::cpu(), 1);
  std::int64_t bytes = 0;
  TernarizeOptions options;
  options.format = format;
  options.num_workers = num_workers;
  ternarize({&task, 1}, options, DrawKey{}, {&bytes, 1}, stream);
  return bytes;
}

void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other) {
  TERNGRAD_REQUIRE(lanes.size() == other.size(), "[lanes] lengths differ: ", lanes.size(), " and ", other.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] += other[i];
}

void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other, Stream& stream) {
  if (stream.device().is_cpu()) return add_lanes(lanes, other);
  TERNGRAD_REQUIRE(lanes.size() == other.size(), "[lanes] lengths differ: ", lanes.size(), " and ", other.size());
  cuda::add_lanes(lanes, other, stream);
}

}  // namespace terngrad
