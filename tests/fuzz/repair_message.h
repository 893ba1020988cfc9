// Repairs checksums, so that fuzzed messages reach the checks behind them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "compress/wire/wire_format.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad::fuzz {

// Header offsets, from docs/wire-format.md.
inline constexpr std::size_t kNumRecordsAt = 36;
inline constexpr std::size_t kPayloadCrcAt = 56;
inline constexpr std::size_t kHeaderCrcAt = 60;

/// Offset of the payload according to the header; the message size if the header is invalid.
inline std::size_t payload_at(std::span<const std::uint8_t> message) {
  if (message.size() < kWireHeaderBytes) return message.size();
  std::uint32_t num_records = 0;
  std::memcpy(&num_records, message.data() + kNumRecordsAt, sizeof num_records);
  if (num_records > (message.size() - kWireHeaderBytes) / kWireRecordBytes) return message.size();
  return kWireHeaderBytes + num_records * kWireRecordBytes;
}

/// Recomputes the checksums of a message. Does nothing if it is shorter than a header.
inline void repair_checksums(std::span<std::uint8_t> message) {
  if (message.size() < kWireHeaderBytes) return;
  const std::size_t payload = payload_at(message);
  const std::uint32_t payload_crc = crc32c(message.subspan(payload));
  std::memcpy(message.data() + kPayloadCrcAt, &payload_crc, sizeof payload_crc);
  const std::uint32_t header_crc =
      crc32c(message.subspan(kWireHeaderBytes, payload - kWireHeaderBytes), crc32c(message.first(kHeaderCrcAt)));
  std::memcpy(message.data() + kHeaderCrcAt, &header_crc, sizeof header_crc);
}

}  // namespace terngrad::fuzz
