// Packing of signs.
#include "kernels/codes/signs.h"

#include <memory>

#include "bench/harness.h"
#include "bench/sign_check.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

Subject pack(std::int64_t n, ElementType type) {
  struct State {
    SignPacker packer;
    Buffer<std::uint64_t> payload;
    float scaler = 0.01f;
    QuantizeTask task;
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(CodeFormat::kBits, n, 1);
  state->payload = Buffer<std::uint64_t>((bytes + 7) / 8);
  state->task = {.gradient = typed_gradient(type, n).elements,
                 .count = n,
                 .scalers = &state->scaler,
                 .payload = reinterpret_cast<std::uint8_t*>(state->payload.data()),
                 .type = type};
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n) + static_cast<double>(bytes);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] { state->packer.run({&state->task, 1}, {}, kKey, stream); };
  };
  subject.check = [=] {
    return signs_are_right({state->task.payload, static_cast<std::size_t>(bytes)}, n, typed_gradient(type, n).values);
  };
  return subject;
}

}  // namespace

void register_signs() {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name("signs", bench_type(type), n, threads), n, threads, [=] { return pack(n, type); });
      }
    }
  }
}

}  // namespace terngrad::bench
