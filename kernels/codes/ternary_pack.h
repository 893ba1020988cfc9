// Packing and unpacking of codes, without arithmetic on gradients.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// One packed sequence of codes.
struct PackedCodes {
  TernaryFormat format = TernaryFormat::kT2;
  std::span<const std::uint8_t> payload;  // exact length for the format; 4-byte aligned, lanes on a GPU 8-byte aligned
  std::int64_t num_codes = 0;
  int num_workers = 1;  // lanes: number of workers that a lane can sum
  int lane_levels = 2;  // lanes: m of one worker
};

/// Validates a payload: its length, no invalid code, and for tmask and trans offsets that agree with the masks. A valid
/// payload can be unpacked without reading past its end. Host memory only: payloads that one GPU sends to another come
/// from this program's encoder and are not checked.
/// @throws CommunicationError with the reason
void check_payload(const PackedCodes& codes);

/// Unpacks codes [first, first + out.size()): codes of one worker, or for lanes sums over num_workers workers (which
/// must fit 16 bits) with lane_bias() subtracted. The payload must have passed check_payload.
/// @throws InvalidArgument if the range is not inside [0, num_codes], or for formats without integer codes
void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out);
/// The same in stream order: on a GPU's stream both spans are device memory. The same codes on every backend.
/// @throws InvalidArgument on a GPU also for a misaligned payload, and for lanes of more than 16383 workers;
/// NotSupported there for trans
void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out, Stream& stream);

/// Packs codes of one worker; the inverse of unpack_codes. For tools and tests: in training, quantizing kernels write
/// packed codes directly.
/// @param codes    from -L to L of the format; -1, 0 or 1 for lanes
/// @param payload  [payload_bytes(...)] out
/// @returns the number of bytes written
std::int64_t pack_codes(std::span<const std::int8_t> codes, TernaryFormat format, int num_workers,
                        std::span<std::uint8_t> payload);

/// lanes[i] += other[i]: sums lanes of different workers. @throws InvalidArgument if lengths differ
void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other);
/// The same in stream order: on a GPU's stream both spans are device memory.
void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other, Stream& stream);

namespace cpu {
struct CodePlanes;

/// Converts `count` codes (at most one chunk) from bit planes to t2, ceil(count / 16) words.
void planes_to_t2(const CodePlanes& planes, std::int64_t count, std::uint32_t* words);
/// Packs the sign bits of the nonzeros of up to one chunk, padded to a whole byte.
/// @param signs  [512] out. @returns the number of bytes written
std::int64_t compact_signs(const CodePlanes& planes, std::int64_t count, std::uint8_t* signs);
/// Converts t2 words to t5, ceil(count / 5) bytes. Reads up to 8 bytes past the last code's word.
void t2_to_t5(const std::uint32_t* words, std::int64_t count, std::uint8_t* bytes);
/// Converts t2 words to lanes of code + 1.
void t2_to_lanes(const std::uint32_t* words, std::int64_t count, int bits, std::uint64_t* lanes);
/// Converts one chunk of a tmask payload to t2 words. @param masks, signs  from the chunk's first byte on
void tmask_to_t2(const std::uint8_t* masks, std::span<const std::uint8_t> signs, std::int64_t count,
                 std::uint32_t* words);
/// For every t5 byte its five codes (-1, 0, +1), then three zeros; entries from 243 on are zero.
const std::int8_t (&t5_table())[256][8];
}  // namespace cpu

}  // namespace terngrad
