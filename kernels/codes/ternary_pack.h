// Packing and unpacking of codes, without arithmetic on gradients.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// One packed run of codes.
struct PackedCodes {
  TernaryFormat format = TernaryFormat::kT2;
  std::span<const std::uint8_t> payload;  // as long as the format says; 4-byte aligned, lanes on a GPU 8-byte aligned
  std::int64_t num_codes = 0;
  int num_workers = 1;  // of lanes: workers that a lane can sum
  int lane_levels = 2;  // of lanes: m of one worker
};

/// Checks that a payload is one that an encoder can have written: its length, no impossible code, and for tmask and
/// trans offsets that agree with the masks. A payload that passes can be unpacked without reading past its end.
/// @throws CommunicationError saying what is wrong
/// Host memory only: a sender of payloads from one GPU to another has encoded them itself, and they are not checked.
void check_payload(const PackedCodes& codes);

/// Unpacks codes [first, first + out.size()): those of one worker, or for lanes sums over num_workers workers (which
/// must fit 16 bits), lane_bias() taken off.
/// @throws InvalidArgument if the range is not inside [0, num_codes], or for formats of numbers, which are no integers
/// The payload must have passed check_payload.
void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out);
/// The same in a stream's order: on a GPU's stream both spans are device memory. The same codes on every backend.
/// @throws InvalidArgument on a GPU also for a misaligned payload, and for lanes of more than 16383 workers;
/// NotSupported there for trans
void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out, Stream& stream);

/// Packs codes of one worker; the inverse of unpack_codes. For tools and tests: training packs straight from kernels
/// that quantize.
/// @param codes    from -L to L of the format; of lanes -1, 0 or 1
/// @param payload  [payload_bytes(...)] out. @returns bytes written
std::int64_t pack_codes(std::span<const std::int8_t> codes, TernaryFormat format, int num_workers,
                        std::span<std::uint8_t> payload);

/// lanes[i] += other[i]: adds up lanes of different workers. @throws InvalidArgument if lengths differ
void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other);
/// The same in a stream's order: on a GPU's stream both spans are device memory.
void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other, Stream& stream);

namespace cpu {
struct CodePlanes;

/// `count` codes (at most one chunk) of bit planes as t2 words. Writes ceil(count / 16) words.
void planes_to_t2(const CodePlanes& planes, std::int64_t count, std::uint32_t* words);
/// The sign bits of the non-zeros of up to one chunk, one after the other, filled up to a whole byte.
/// @param signs  [512] out. @returns bytes written
std::int64_t compact_signs(const CodePlanes& planes, std::int64_t count, std::uint8_t* signs);
/// Codes of t2 words as t5 bytes: ceil(count / 5) bytes. Reads up to 8 bytes past the last code's word.
void t2_to_t5(const std::uint32_t* words, std::int64_t count, std::uint8_t* bytes);
/// Codes of t2 words as lanes of code + 1.
void t2_to_lanes(const std::uint32_t* words, std::int64_t count, int bits, std::uint64_t* lanes);
/// One chunk of a tmask payload as t2 words. @param masks, signs  beginning with the chunk's
void tmask_to_t2(const std::uint8_t* masks, std::span<const std::uint8_t> signs, std::int64_t count,
                 std::uint32_t* words);
/// Five codes of every t5 byte (-1, 0, +1), then three zeros; entries 243 and above are zero.
const std::int8_t (&t5_table())[256][8];
}  // namespace cpu

}  // namespace terngrad
