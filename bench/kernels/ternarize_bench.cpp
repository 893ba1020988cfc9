#include "kernels/codes/ternarize.h"

#include <memory>
#include <string>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/ternary_check.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

Subject ternarize_subject(std::int64_t n, const TernarizeOptions& options, ElementType type) {
  const TernaryFormat format = options.format;
  struct State {
    Buffer<std::uint8_t> payload;
    float scaler = 0.025f;
    TernarizeTask task;
    std::int64_t bytes = 0;
  };
  const auto state = std::make_shared<State>();
  state->payload = Buffer<std::uint8_t>(payload_bytes(format, n, kWorkers));
  state->task.gradient = typed_gradient(type, n).elements;
  state->task.type = type;
  state->task.count = n;
  state->task.scalers = &state->scaler;
  state->task.payload = state->payload.data();
  const DrawKey key{1, 1, 0, DrawPurpose::kTernarize};
  Subject subject;
  subject.elements = static_cast<double>(n);
  // What is written, which with tmask and trans depends on the codes.
  Stream once(Device::cpu(), num_hardware_threads());
  ternarize({&state->task, 1}, options, key, {&state->bytes, 1}, once);
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n) + static_cast<double>(state->bytes);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] { ternarize({&state->task, 1}, options, key, {&state->bytes, 1}, stream); };
  };
  subject.check = [=] {
    const PackedCodes codes{format, {state->payload.data(), static_cast<std::size_t>(state->bytes)}, n, kWorkers};
    return codes_are_right(codes, typed_gradient(type, n).values, state->scaler, key, 0, options.rounding);
  };
  return subject;
}

}  // namespace

void register_ternarize() {
  const auto add = [](TernaryFormat format, ElementType type, Rounding rounding = Rounding::kStochastic) {
    const TernarizeOptions options{.format = format, .num_workers = kWorkers, .rounding = rounding};
    const std::string name = "ternarize_" + to_string(format) + (rounding == Rounding::kNearest ? "_nearest" : "");
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(name, bench_type(type), n, threads), n, threads,
                         [=] { return ternarize_subject(n, options, type); });
      }
    }
  };
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans, TernaryFormat::kLanes}) {
    add(format, ElementType::kFloat32);
  }
  add(TernaryFormat::kT2, ElementType::kBfloat16);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kNearest);
}

}  // namespace terngrad::bench
