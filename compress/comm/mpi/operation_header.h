// OperationHeader: header of messages between two processes, below the wire format. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// Announces data that a rank sends to another one in a collective operation, or by a mailbox. All processes must run
/// the same version of the program; docs/wire-format.md has the layout, for inspecting captured messages.
struct OperationHeader {
  static constexpr std::uint32_t kMagic = 0x504f4754;  // "TGOP" in file order
  static constexpr std::uint16_t kVersion = 3;         // increased with every change of the layout

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint8_t kind = 0;
  std::uint8_t holds_all = 0;  // 1: the data are in this message
  std::uint64_t number = 0;    // operation number; in a mailbox: message number of the pair in this direction
  std::uint64_t data_bytes = 0;
  std::uint64_t chunk_bytes = 0;  // piece size of longer data
  std::uint32_t num_sizes = 0;
  std::uint32_t root = 0;              // root of a broadcast
  std::uint32_t content_checksum = 0;  // CRC32C of the sizes and, if holds_all, of the data
  std::uint32_t header_checksum = 0;   // CRC32C of the bytes before

  /// Sets both checksums, from the other fields and the content.
  void seal(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// The header as bytes, whether valid or not.
  std::span<const std::uint8_t> bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(this), sizeof(OperationHeader)};
  }
};
static_assert(sizeof(OperationHeader) == 48);

/// Parses the header of a received message.
/// @returns an error text that names the field ("its magic is 44524754, not 504f4754"), or empty
std::string read_operation_header(std::span<const std::uint8_t> message, OperationHeader& header);

/// Compares the content with the header's checksum. @returns an error text, or empty
std::string check_operation_content(const OperationHeader& header, std::span<const std::uint64_t> sizes,
                                    std::span<const std::uint8_t> data);

}  // namespace terngrad
