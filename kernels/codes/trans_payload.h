// Payloads of format trans: of each chunk its coded masks and its signs, found by a table of where chunks begin.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Bytes of a whole chunk's record at most: L and a zero, masks that are not coded, and a sign of every code.
inline constexpr std::int64_t kMaxTransRecordBytes = 2 + 2 * (kChunkElements / 8);
/// Elements of a slice in format trans, whose offsets of records have 32 bits, in units of 2 bytes: whole chunks.
inline constexpr std::int64_t kMaxTransElements =
    ((std::int64_t{1} << 32) - 1) / (kMaxTransRecordBytes / 2) * kChunkElements;

/// Sizes of the parts of a trans payload of n codes.
struct TransParts {
  std::int64_t num_chunks = 0;
  std::int64_t records_offset = 0;  // bytes from the payload's start
  std::int64_t max_bytes = 0;       // of the payload
};
TransParts trans_parts(std::int64_t n);

/// Checks that a payload is one that an encoder can have written. @throws CommunicationError saying what is wrong
void check_trans(std::span<const std::uint8_t> payload, std::int64_t n);

/// The masks of a chunk of a payload, and what begins with its signs.
struct TransChunk {
  alignas(8) std::uint8_t masks[kChunkElements / 8];
  std::span<const std::uint8_t> signs;
};
/// Reads a chunk of a payload of n codes that has passed check_trans.
void read_trans_chunk(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk, TransChunk& out);

namespace cpu {
struct CodePlanes;

/// Writes the record of a chunk of a payload of n codes to where it is if all before it are as long as they can be, and
/// its length into the table. Chunks are independent: any threads can write them.
void write_trans_record(const CodePlanes& planes, std::int64_t n, std::int64_t chunk, std::uint8_t* payload);
/// Turns the lengths in the table into offsets and moves records together. @returns bytes of the payload
std::int64_t close_trans_gaps(std::int64_t n, std::uint8_t* payload);

/// The codes of a chunk as t2 words: ceil(count / 16) words. As read_trans_chunk.
void trans_to_t2(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk, std::uint32_t* words);
}  // namespace cpu

}  // namespace terngrad
