// Rounding to powers of two.
#include "kernels/codes/exponents.h"

#include <memory>

#include "bench/exponent_check.h"
#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

Subject quantize(std::int64_t n, const ExponentOptions& options, ElementType type) {
  struct State {
    ExponentQuantizer quantizer;
    Buffer<std::uint64_t> payload;
    float scaler = 0.0625f;
    QuantizeTask task;
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(exponent_format(options.bits), n, 1);
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
    return [=, &stream] { state->quantizer.run({&state->task, 1}, options, kKey, stream); };
  };
  subject.check = [=] {
    return exponents_are_right({state->task.payload, static_cast<std::size_t>(bytes)}, n, options,
                               typed_gradient(type, n).values, state->scaler);
  };
  return subject;
}

}  // namespace

void register_exponents() {
  const auto add = [](const ExponentOptions& options, ElementType type) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(
            bench_name("quantize_" + to_string(exponent_format(options.bits)), bench_type(type), n, threads), n,
            threads, [=] { return quantize(n, options, type); });
      }
    }
  };
  add({.bits = 8}, ElementType::kFloat32);
  add({.bits = 4}, ElementType::kFloat32);
}

}  // namespace terngrad::bench
