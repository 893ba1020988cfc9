// Rotating runs, alone and before quantizing to 4 bits.
#include "kernels/codes/rotate.h"

#include <cmath>
#include <memory>
#include <string>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternary.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kRun = 1024;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

struct State {
  Rotator rotator{kRun};
  LevelQuantizer quantizer;
  Buffer<float> rotated;
  Buffer<std::uint64_t> payload;
  float scaler = 0.02154f;
  RotateTask rotation;
  QuantizeTask task;
};

/// A run's norm stays, and turning back gives the gradient.
bool is_right(const State& state, const float* gradient) {
  double before = 0;
  double after = 0;
  for (std::int64_t i = 0; i < kRun; ++i) {
    before += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    after += static_cast<double>(state.rotated.data()[i]) * static_cast<double>(state.rotated.data()[i]);
  }
  if (!(std::fabs(after / before - 1) < 1e-6)) return false;
  Buffer<float> back(kRun);
  const RotateTask task{.values = state.rotated.data(), .count = kRun, .out = back.data()};
  Stream stream;
  Rotator(kRun).run({&task, 1}, Rotation::kBackward, kKey, stream);
  for (std::int64_t i = 0; i < kRun; ++i) {
    if (!(std::fabs(back.data()[i] - gradient[i]) < 1e-5f)) return false;
  }
  return true;
}

/// @param quantizes  whether what is rotated is also quantized to 4 bits
Subject rotate_subject(std::int64_t n, bool quantizes) {
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(CodeFormat::kQ4, n, 1);
  const float* const values = gradient(n);
  state->rotated = Buffer<float>(n);
  state->payload = Buffer<std::uint64_t>((bytes + 7) / 8);
  state->rotation = {.values = values, .count = n, .out = state->rotated.data()};
  state->task = {.gradient = state->rotated.data(),
                 .count = n,
                 .scalers = &state->scaler,
                 .payload = reinterpret_cast<std::uint8_t*>(state->payload.data())};
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 8.0 * static_cast<double>(n);
  if (quantizes) subject.bytes += 4.0 * static_cast<double>(n) + static_cast<double>(bytes);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      state->rotator.run({&state->rotation, 1}, Rotation::kForward, kKey, stream);
      if (quantizes) state->quantizer.run({&state->task, 1}, {.bits = 4}, kKey, stream);
    };
  };
  subject.check = [=] { return is_right(*state, values); };
  return subject;
}

}  // namespace

void register_rotate() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      for (const bool quantizes : {false, true}) {
        register_subject(bench_name(quantizes ? "rotate_1024_quantize_q4" : "rotate_1024",
                                    bench_type(ElementType::kFloat32), n, threads),
                         n, threads, [=] { return rotate_subject(n, quantizes); });
      }
    }
  }
}

}  // namespace terngrad::bench
