#include "kernels/bfloat16.h"

#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"

namespace terngrad::bench {
namespace {

Subject bfloat16(std::int64_t n, bool decode) {
  auto half = std::make_shared<Buffer<std::uint16_t>>(n);
  auto out = std::make_shared<Buffer<float>>(n);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 6.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    encode_bfloat16({gradient(n), static_cast<std::size_t>(n)}, half->span(), stream);
    if (decode) return [=, &stream] { decode_bfloat16(half->span(), out->span(), stream); };
    return [=, &stream] { encode_bfloat16({gradient(n), static_cast<std::size_t>(n)}, half->span(), stream); };
  };
  subject.check = [=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint16_t expected = to_bfloat16(gradient(n)[i]);
      if (half->data()[i] != expected || (decode && out->data()[i] != from_bfloat16(expected))) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_bfloat16() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      register_subject(bench_name("encode_bfloat16", "f32", n, threads), n, threads,
                       [n] { return bfloat16(n, false); });
      register_subject(bench_name("decode_bfloat16", "f32", n, threads), n, threads, [n] { return bfloat16(n, true); });
    }
  }
}

}  // namespace terngrad::bench
