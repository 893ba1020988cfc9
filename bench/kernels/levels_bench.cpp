// Quantizing to uniform levels, drawn and to nearest.
#include "kernels/codes/levels.h"

#include <memory>

#include "bench/harness.h"
#include "bench/level_check.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

Subject quantize(std::int64_t n, const LevelOptions& options, ElementType type) {
  struct State {
    LevelQuantizer quantizer;
    Buffer<std::uint64_t> payload;
    float scaler = 0.025f;
    QuantizeTask task;
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = level_bytes(n, options);
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
    return levels_are_right({state->task.payload, static_cast<std::size_t>(bytes)}, n, options,
                            typed_gradient(type, n).values, state->scaler, kKey);
  };
  return subject;
}

}  // namespace

void register_levels() {
  const auto add = [](const LevelOptions& options, ElementType type) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(level_bench_name(options), bench_type(type), n, threads), n, threads,
                         [=] { return quantize(n, options, type); });
      }
    }
  };
  for (const LevelOptions& options : kLevelBenches) add(options, ElementType::kFloat32);
  add({.bits = 4}, ElementType::kBfloat16);
}

}  // namespace terngrad::bench
