#include "kernels/tensor/crc32c.h"

#include <memory>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"

namespace terngrad::bench {
namespace {

Subject checksum(std::int64_t n) {
  const auto elements = static_cast<double>(n);
  return {.bytes = 4 * elements, .elements = elements, .prepare = [=](Stream&) {
            const std::span<const std::uint8_t> bytes = bytes_of(gradient(n));
            const auto crc = std::make_shared<std::uint32_t>(0);
            const auto check = [=] {
              // The same checksum from pieces too short for the fast path.
              std::uint32_t expected = 0;
              for (std::size_t at = 0; at < bytes.size(); at += 64) expected = crc32c(bytes.subspan(at, 64), expected);
              return *crc == expected;
            };
            return Work{.run = [=] { *crc = crc32c(bytes); }, .check = check};
          }};
}

const Registration registration(__FILE__, [](Rows& rows) {
  rows.add("crc32c", "u8x4", checksum, {.devices = Devices::kCpu, .one_thread = true});
});

}  // namespace
}  // namespace terngrad::bench
