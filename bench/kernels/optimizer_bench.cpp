#include "kernels/optimizer/optimizer.h"

#include <cmath>
#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"

namespace terngrad::bench {
namespace {

struct Buffers {
  Buffer<float> weights, slot, second_slot;
};

std::shared_ptr<Buffers> make_buffers(std::int64_t n) {
  auto buffers = std::make_shared<Buffers>();
  buffers->weights = zeros<float>(n);
  buffers->slot = zeros<float>(n);
  buffers->second_slot = zeros<float>(n);
  return buffers;
}

using Update = void (*)(Buffers&, std::span<const float> gradient, Stream&);

/// What one update makes of a zero weight and zero slots.
using Expected = float (*)(float g);

Subject update(std::int64_t n, double floats_moved, Expected expected, Update apply) {
  const auto buffers = make_buffers(n);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * floats_moved * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] { apply(*buffers, {gradient(n), static_cast<std::size_t>(n)}, stream); };
  };
  subject.check = [=] {
    for (std::int64_t i = 0; i < n; ++i) {
      if (buffers->weights.data()[i] != expected(gradient(n)[i])) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_optimizer() {
  const struct {
    const char* name;
    double floats_moved;
    Expected expected;
    Update apply;
  } updates[] = {
      {"update_gd", 3, [](float g) { return -0.1f * g; },
       [](Buffers& b, std::span<const float> g, Stream& s) { update_gd(b.weights.span(), g, 0.1f, s); }},
      {"update_momentum", 5, [](float g) { return -0.1f * g; },
       [](Buffers& b, std::span<const float> g, Stream& s) {
         update_momentum(b.weights.span(), b.slot.span(), g, 0.1f, 0.9f, s);
       }},
      {"update_adam", 7,
       [](float g) { return -(0.1f * ((1.0f - 0.9f) * g)) / (std::sqrt((1.0f - 0.999f) * (g * g)) + 1e-8f); },
       [](Buffers& b, std::span<const float> g, Stream& s) {
         update_adam(b.weights.span(), b.slot.span(), b.second_slot.span(), g, 0.1f, {}, s);
       }},
      {"update_rmsprop", 7, [](float g) { return -(0.1f * g / std::sqrt((1.0f - 0.9f) * (g * g) + 1.0f)); },
       [](Buffers& b, std::span<const float> g, Stream& s) {
         update_rmsprop(b.weights.span(), b.slot.span(), b.second_slot.span(), g, 0.1f, {}, s);
       }},
      {"update_ema", 3, [](float g) { return (1.0f - 0.9f) * g; },
       [](Buffers& b, std::span<const float> g, Stream& s) { update_ema(b.weights.span(), g, 0.9f, s); }},
      {"add_weight_decay", 3, [](float g) { return 0.1f * g; },
       [](Buffers& b, std::span<const float> g, Stream& s) { add_weight_decay(b.weights.span(), g, 0.1f, s); }},
  };
  for (const auto& u : updates) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(u.name, "f32", n, threads), n, threads,
                         [=] { return update(n, u.floats_moved, u.expected, u.apply); });
      }
    }
  }
}

}  // namespace terngrad::bench
