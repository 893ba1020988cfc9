#include "compress/comm/mpi/operation_header.h"

#include <cstdio>
#include <cstring>

#include "kernels/tensor/crc32c.h"

namespace terngrad {
namespace {

std::uint32_t header_checksum_of(const OperationHeader& header) {
  return crc32c(header.bytes().first(offsetof(OperationHeader, header_checksum)));
}

std::uint32_t content_checksum_of(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data) {
  return crc32c(data, crc32c({reinterpret_cast<const std::uint8_t*>(sizes.data()), sizes.size_bytes()}));
}

std::string difference(const char* field, std::uint32_t found, std::uint32_t expected) {
  char text[80];
  std::snprintf(text, sizeof(text), "its %s is %08x, not %08x", field, found, expected);
  return text;
}

}  // namespace

void OperationHeader::seal(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data) {
  content_checksum = content_checksum_of(sizes, holds_all != 0 ? data : data.first(0));
  header_checksum = header_checksum_of(*this);
}

std::string read_operation_header(std::span<const std::uint8_t> message, OperationHeader& header) {
  if (message.size() < sizeof(header)) return "it has " + std::to_string(message.size()) + " bytes, too few";
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.magic != OperationHeader::kMagic) return difference("magic", header.magic, OperationHeader::kMagic);
  if (header.version != OperationHeader::kVersion) {
    return "its version is " + std::to_string(header.version) + ", not " + std::to_string(OperationHeader::kVersion);
  }
  const std::uint32_t checksum = header_checksum_of(header);
  if (header.header_checksum != checksum) return difference("header checksum", header.header_checksum, checksum);
  return "";
}

std::string check_operation_content(const OperationHeader& header, std::span<const std::uint64_t> sizes,
                                    std::span<const std::uint8_t> data) {
  const std::uint32_t checksum = content_checksum_of(sizes, header.holds_all != 0 ? data : data.first(0));
  if (header.content_checksum == checksum) return "";
  return difference("content checksum", header.content_checksum, checksum);
}

}  // namespace terngrad
