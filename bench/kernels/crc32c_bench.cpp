#include "kernels/tensor/crc32c.h"

#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"

namespace terngrad::bench {
namespace {

Subject checksum(std::int64_t n) {
  auto crc = std::make_shared<std::uint32_t>(0);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n);
  const auto bytes = [n] {
    return std::span(reinterpret_cast<const std::uint8_t*>(gradient(n)), 4 * static_cast<std::size_t>(n));
  };
  subject.prepare = [=](Stream&) -> std::function<void()> { return [=] { *crc = crc32c(bytes()); }; };
  subject.check = [=] {
    // The same checksum from pieces too short for the fast path.
    std::uint32_t expected = 0;
    for (std::size_t at = 0; at < bytes().size(); at += 64) expected = crc32c(bytes().subspan(at, 64), expected);
    return *crc == expected;
  };
  return subject;
}

}  // namespace

void register_crc32c() {
  for (const std::int64_t n : sizes()) {
    if (n % 16 != 0) continue;
    register_subject(bench_name("crc32c", "u8x4", n, 1), n, 1, [n] { return checksum(n); });
  }
}

}  // namespace terngrad::bench
