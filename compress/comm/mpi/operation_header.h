// OperationHeader: what messages between two processes begin with, under the messages of the wire format. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// Announces what a rank sends to another one in a collective operation, or by a mailbox. Processes of one version of
/// the program understand each other; docs/wire-format.md has the layout, for who looks at captured messages.
struct OperationHeader {
  static constexpr std::uint32_t kMagic = 0x504f4754;  // "TGOP" in file order
  static constexpr std::uint16_t kVersion = 3;         // changes with the form

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint8_t kind = 0;
  std::uint8_t holds_all = 0;  // the data are in this message
  std::uint64_t number = 0;    // of the operation; in a mailbox, of the pair's messages in this direction
  std::uint64_t data_bytes = 0;
  std::uint64_t chunk_bytes = 0;  // of the pieces in which longer data travel
  std::uint32_t num_sizes = 0;
  std::uint32_t root = 0;              // of a broadcast
  std::uint32_t content_checksum = 0;  // CRC32C of the sizes and, if holds_all, of the data
  std::uint32_t header_checksum = 0;   // CRC32C of the bytes before

  /// Fills in both checksums; the other fields are those that are sent.
  void seal(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// The header, what is wrong with it aside, as bytes.
  std::span<const std::uint8_t> bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(this), sizeof(OperationHeader)};
  }
};
static_assert(sizeof(OperationHeader) == 48);

/// Reads the header of a message that has come.
/// @returns what is wrong, naming the field, or nothing: "its magic is 44524754, not 504f4754"
std::string read_operation_header(std::span<const std::uint8_t> message, OperationHeader& header);

/// Compares the content with the header's checksum. @returns what is wrong, or nothing
std::string check_operation_content(const OperationHeader& header, std::span<const std::uint64_t> sizes,
                                    std::span<const std::uint8_t> data);

}  // namespace terngrad
