#include "kernels/ternarize.h"

#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/ternary_check.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;

Subject ternarize_subject(std::int64_t n, TernaryFormat format) {
  struct State {
    Buffer<std::uint8_t> payload;
    float scaler = 0.025f;
    TernarizeTask task;
    std::int64_t bytes = 0;
  };
  const auto state = std::make_shared<State>();
  state->payload = Buffer<std::uint8_t>(payload_bytes(format, n, kWorkers));
  state->task.gradient = gradient(n);
  state->task.count = n;
  state->task.scalers = &state->scaler;
  state->task.payload = state->payload.data();
  const DrawKey key{1, 1, 0, DrawPurpose::kTernarize};
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n) + static_cast<double>(payload_bytes(format, n, kWorkers));
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      const TernarizeOptions options{.format = format, .num_workers = kWorkers};
      ternarize({&state->task, 1}, options, key, {&state->bytes, 1}, stream);
    };
  };
  subject.check = [=] {
    const PackedCodes codes{format, {state->payload.data(), static_cast<std::size_t>(state->bytes)}, n, kWorkers};
    return codes_are_right(codes, gradient(n), state->scaler, key);
  };
  return subject;
}

}  // namespace

void register_ternarize() {
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kLanes}) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name("ternarize_" + to_string(format), "f32", n, threads), n, threads,
                         [=] { return ternarize_subject(n, format); });
      }
    }
  }
}

}  // namespace terngrad::bench
