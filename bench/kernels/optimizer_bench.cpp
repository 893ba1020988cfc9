#include "kernels/optimizer.h"

#include <memory>

#include "bench/harness.h"
#include "bench/subjects.h"

namespace terngrad::bench {
namespace {

struct Buffers {
  Buffer<float> weights, slot;
};

std::shared_ptr<Buffers> make_buffers(std::int64_t n) {
  auto buffers = std::make_shared<Buffers>();
  buffers->weights = zeros<float>(n);
  buffers->slot = zeros<float>(n);
  return buffers;
}

using Update = void (*)(Buffers&, std::span<const float> gradient, Stream&);

/// After one update of zero weights with rate 0.1: -0.1 g, but for the average, which moves from 0 to 0.
Subject update(std::int64_t n, double floats_moved, float expected_factor, Update apply) {
  const auto buffers = make_buffers(n);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * floats_moved * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] { apply(*buffers, {gradient(n), static_cast<std::size_t>(n)}, stream); };
  };
  subject.check = [=] {
    for (std::int64_t i = 0; i < n; ++i) {
      if (buffers->weights.data()[i] != expected_factor * gradient(n)[i]) return false;
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
    float expected_factor;
    Update apply;
  } updates[] = {
      {"update_gd", 3, -0.1f,
       [](Buffers& b, std::span<const float> g, Stream& s) { update_gd(b.weights.span(), g, 0.1f, s); }},
      {"update_momentum", 5, -0.1f,
       [](Buffers& b, std::span<const float> g, Stream& s) {
         update_momentum(b.weights.span(), b.slot.span(), g, 0.1f, 0.9f, s);
       }},
      {"update_ema", 3, 1.0f - 0.9f,
       [](Buffers& b, std::span<const float> g, Stream& s) { update_ema(b.weights.span(), g, 0.9f, s); }},
      {"add_weight_decay", 3, 0.1f,
       [](Buffers& b, std::span<const float> g, Stream& s) { add_weight_decay(b.weights.span(), g, 0.1f, s); }},
  };
  for (const auto& u : updates) {
    for (const std::int64_t n : sizes()) {
      for (const int threads : thread_counts()) {
        register_subject(bench_name(u.name, "f32", n, threads), n, threads,
                         [=] { return update(n, u.floats_moved, u.expected_factor, u.apply); });
      }
    }
  }
}

}  // namespace terngrad::bench
