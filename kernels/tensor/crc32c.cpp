#include "kernels/tensor/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace terngrad {

std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // ISA-L takes lengths of type int
  std::uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::span<const std::uint8_t> part = bytes.first(std::min(bytes.size(), kMostAtOnce));
    // crc32_iscsi takes a non-const pointer but only reads.
    state = crc32_iscsi(const_cast<std::uint8_t*>(part.data()), static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

}  // namespace terngrad
