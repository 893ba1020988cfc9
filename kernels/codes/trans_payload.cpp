#include "kernels/codes/trans_payload.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/codes/mask_coding.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Unit of offsets.
constexpr std::int64_t kUnitBytes = 2;

std::int64_t offset_at(const std::uint8_t* payload, std::int64_t chunk) {
  std::uint32_t offset;
  std::memcpy(&offset, payload + 4 * chunk, sizeof(offset));
  return offset;
}

void set_offset(std::uint8_t* payload, std::int64_t chunk, std::int64_t units) {
  const auto offset = static_cast<std::uint32_t>(units);
  std::memcpy(payload + 4 * chunk, &offset, sizeof(offset));
}

std::int64_t codes_of_chunk(std::int64_t n, std::int64_t chunk) {
  return std::min(kChunkElements, n - chunk * kChunkElements);
}

std::span<const std::uint8_t> record_of(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk) {
  const std::int64_t begin = kUnitBytes * offset_at(payload.data(), chunk);
  const std::int64_t end = kUnitBytes * offset_at(payload.data(), chunk + 1);
  return payload.subspan(static_cast<std::size_t>(trans_parts(n).records_offset + begin),
                         static_cast<std::size_t>(end - begin));
}

void check_record(std::span<const std::uint8_t> record, std::int64_t count, std::int64_t chunk) {
  std::uint8_t masks[kMaxMaskBytes];
  const std::int64_t signs_begin = check_masks(record, count, masks);
  std::int64_t nonzeros = 0;
  for (std::int64_t i = 0; i < (count + 7) / 8; ++i) nonzeros += std::popcount(masks[i]);
  const std::int64_t signs_end = signs_begin + (nonzeros + 7) / 8;
  const std::int64_t end = (signs_end + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  if (static_cast<std::int64_t>(record.size()) != end) {
    TERNGRAD_THROW(CommunicationError, "[trans] chunk ", chunk, " has ", record.size(), " bytes, its masks ask for ",
                   end);
  }
  if (nonzeros % 8 != 0 && record[static_cast<std::size_t>(signs_end) - 1] >> (nonzeros % 8) != 0) {
    TERNGRAD_THROW(CommunicationError, "[trans] sign bits after the last non-zero of chunk ", chunk, " are not zero");
  }
  if (signs_end != end && record.back() != 0) {
    TERNGRAD_THROW(CommunicationError, "[trans] padding after the signs of chunk ", chunk, " is not zero");
  }
}

}  // namespace

TransParts trans_parts(std::int64_t n) {
  TransParts parts;
  parts.num_chunks = (n + kChunkElements - 1) / kChunkElements;
  parts.records_offset = 4 * (parts.num_chunks + 1);
  // All chunks but the last are whole, so their mask and sign bytes are full.
  const std::int64_t records = 2 * parts.num_chunks + 2 * ((n + 7) / 8);
  parts.max_bytes = parts.records_offset + (records + 3) / 4 * 4;
  return parts;
}

void check_trans(std::span<const std::uint8_t> payload, std::int64_t n) {
  const TransParts parts = trans_parts(n);
  const std::int64_t room = static_cast<std::int64_t>(payload.size()) - parts.records_offset;
  if (room < 0) {
    TERNGRAD_THROW(CommunicationError, "[trans] a payload of ", payload.size(), " bytes has no offsets of ",
                   parts.num_chunks, " chunks");
  }
  std::int64_t end = 0;
  for (std::int64_t chunk = 0; chunk <= parts.num_chunks; ++chunk) {
    const std::int64_t offset = kUnitBytes * offset_at(payload.data(), chunk);
    if (offset < end || offset > room || (chunk == 0 && offset != 0)) {
      TERNGRAD_THROW(CommunicationError, "[trans] chunk ", chunk, " begins at byte ", offset, " of ", room,
                     ", that before it at ", end);
    }
    end = offset;
  }
  if (room != (end + 3) / 4 * 4) {
    TERNGRAD_THROW(CommunicationError, "[trans] payload has ", room, " bytes of records, its offsets ask for ",
                   (end + 3) / 4 * 4);
  }
  for (std::int64_t chunk = 0; chunk < parts.num_chunks; ++chunk) {
    check_record(record_of(payload, n, chunk), codes_of_chunk(n, chunk), chunk);
  }
  for (std::int64_t i = end; i < room; ++i) {
    if (payload[static_cast<std::size_t>(parts.records_offset + i)] != 0) {
      TERNGRAD_THROW(CommunicationError, "[trans] padding after the records is not zero");
    }
  }
}

void read_trans_chunk(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk, TransChunk& out) {
  const std::span<const std::uint8_t> record = record_of(payload, n, chunk);
  out.signs = record.subspan(static_cast<std::size_t>(decode_masks(record, codes_of_chunk(n, chunk), out.masks)));
}

namespace cpu {

void write_trans_record(const CodePlanes& planes, std::int64_t n, std::int64_t chunk, std::uint8_t* payload) {
  const std::int64_t count = codes_of_chunk(n, chunk);
  std::uint8_t* const record = payload + trans_parts(n).records_offset + chunk * kMaxTransRecordBytes;
  std::int64_t bytes = encode_masks(reinterpret_cast<const std::uint8_t*>(planes.nonzero), count, record);
  std::uint8_t signs[kChunkElements / 8];
  const std::int64_t sign_bytes = compact_signs(planes, count, signs);
  std::memcpy(record + bytes, signs, static_cast<std::size_t>(sign_bytes));
  bytes += sign_bytes;
  if (bytes % kUnitBytes != 0) record[bytes++] = 0;
  set_offset(payload, chunk, bytes / kUnitBytes);
}

std::int64_t close_trans_gaps(std::int64_t n, std::uint8_t* payload) {
  const TransParts parts = trans_parts(n);
  std::uint8_t* const records = payload + parts.records_offset;
  std::int64_t end = 0;
  for (std::int64_t chunk = 0; chunk < parts.num_chunks; ++chunk) {
    const std::int64_t bytes = kUnitBytes * offset_at(payload, chunk);
    set_offset(payload, chunk, end / kUnitBytes);
    std::memmove(records + end, records + chunk * kMaxTransRecordBytes, static_cast<std::size_t>(bytes));
    end += bytes;
  }
  set_offset(payload, parts.num_chunks, end / kUnitBytes);
  const std::int64_t padded = (end + 3) / 4 * 4;
  std::memset(records + end, 0, static_cast<std::size_t>(padded - end));
  return parts.records_offset + padded;
}

void trans_to_t2(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t chunk, std::uint32_t* words) {
  TransChunk read;
  read_trans_chunk(payload, n, chunk, read);
  tmask_to_t2(read.masks, read.signs, codes_of_chunk(n, chunk), words);
}

}  // namespace cpu

}  // namespace terngrad
