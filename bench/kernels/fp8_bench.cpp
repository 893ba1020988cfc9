// Quantizing to FP8, to nearest and drawn.
#include "kernels/codes/fp8.h"

#include <memory>

#include "bench/fp8_check.h"
#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

Subject quantize(std::int64_t n, const Fp8Options& options, ElementType type) {
  struct State {
    Fp8Quantizer quantizer;
    Buffer<std::uint64_t> payload;
    float scaler = 0.0001f;
    QuantizeTask task;
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(CodeFormat::kE4M3, n, 1);
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
    return fp8_is_right({state->task.payload, static_cast<std::size_t>(bytes)}, n, options,
                        typed_gradient(type, n).values, state->scaler);
  };
  return subject;
}

}  // namespace

void register_fp8() {
  const auto add = [](const Fp8Options& options, ElementType type) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(fp8_bench_name(options), bench_type(type), n, threads), n, threads,
                         [=] { return quantize(n, options, type); });
      }
    }
  };
  add({}, ElementType::kFloat32);
  add({.rounding = Rounding::kStochastic}, ElementType::kFloat32);
  add({}, ElementType::kBfloat16);
}

}  // namespace terngrad::bench
