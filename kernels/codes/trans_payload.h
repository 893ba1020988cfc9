// Payloads of format trans: per chunk its entropy-coded masks and its signs, located by a table of offsets.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Maximum bytes of a chunk's record: L and a zero byte, uncoded masks, and a sign for every code.
inline constexpr std::int64_t kMaxTransRecordBytes = 2 + 2 * (kChunkElements / 8);
/// Maximum elements of a trans slice, whose record offsets have 32 bits in units of 2 bytes: whole chunks.
inline constexpr std::int64_t kMaxTransElements =
    ((std::int64_t{1} << 32) - 1) / (kMaxTransRecordBytes / 2) * kChunkElements;

/// Sizes of the parts of a trans payload of n codes.
struct TransParts {
  std::int64_t num_chunks = 0;
  std::int64_t records_offset = 0;  // bytes from the payload's start
  std::int64_t max_bytes = 0;       // maximum length of the payload
};
TransParts trans_parts(std::int64_t n);

/// Validates a payload. @throws CommunicationError with the reason
void check_trans(std::span<const std::uint8_t> payload, std::int64_t n);

/// Decoded masks of a chunk, and the part of the payload that begins with its signs.
struct TransChunk {
  alignas(8) std::uint8_t masks[kChunkElements / 8];
  std::span<const std::uint8_t> signs;
};
/// Reads a chunk from a payload of n codes, which must have passed check_trans.
void read_trans_chunk(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk, TransChunk& out);

namespace cpu {
struct CodePlanes;

/// Writes a chunk's record at its largest possible offset (all previous records of maximum length), and its length into
/// the table. Thread-safe for different chunks.
void write_trans_record(const CodePlanes& planes, std::int64_t n, std::int64_t chunk, std::uint8_t* payload);
/// Converts the lengths in the table to offsets and closes the gaps between records. @returns the payload's length in
/// bytes
std::int64_t close_trans_gaps(std::int64_t n, std::uint8_t* payload);

/// Converts a chunk to t2, ceil(count / 16) words. Requirements as for read_trans_chunk.
void trans_to_t2(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk, std::uint32_t* words);
}  // namespace cpu

}  // namespace terngrad
