// CRC32C: the checksum of messages and files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace terngrad {

/// CRC-32C (Castagnoli; polynomial 0x1EDC6F41 reflected, initial value and final XOR all ones), as in RFC 3720 appendix
/// B.4, whose vectors are tests. Computed by ISA-L, which uses the CPU's carry-less multiplication.
/// @param crc  checksum of the preceding bytes, to continue from; 0 to begin
std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc = 0);

}  // namespace terngrad
