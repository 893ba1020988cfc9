#include "kernels/codes/ternarize.h"

#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/ternary_check.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

Subject ternarize_subject(std::int64_t n, TernaryFormat format, ElementType type) {
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
  // What is written, which with tmask depends on the codes.
  Stream once(Device::cpu(), num_hardware_threads());
  ternarize({&state->task, 1}, {.format = format, .num_workers = kWorkers}, key, {&state->bytes, 1}, once);
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n) + static_cast<double>(state->bytes);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      const TernarizeOptions options{.format = format, .num_workers = kWorkers};
      ternarize({&state->task, 1}, options, key, {&state->bytes, 1}, stream);
    };
  };
  subject.check = [=] {
    const PackedCodes codes{format, {state->payload.data(), static_cast<std::size_t>(state->bytes)}, n, kWorkers};
    return codes_are_right(codes, typed_gradient(type, n).values, state->scaler, key);
  };
  return subject;
}

}  // namespace

void register_ternarize() {
  const auto add = [](TernaryFormat format, ElementType type) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name("ternarize_" + to_string(format), bench_type(type), n, threads), n, threads,
                         [=] { return ternarize_subject(n, format, type); });
      }
    }
  };
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kLanes}) {
    add(format, ElementType::kFloat32);
  }
  add(TernaryFormat::kT2, ElementType::kBfloat16);
}

}  // namespace terngrad::bench
