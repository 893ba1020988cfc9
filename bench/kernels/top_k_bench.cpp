// Choosing the elements of largest magnitude of a tensor, at the densities of the literature.
#include "kernels/sparse/top_k.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/sparse_check.h"
#include "bench/subjects.h"
#include "bench/typed_gradient.h"

namespace terngrad::bench {
namespace {

/// Elements are read once: the ceiling is that of reading. @param block  elements chosen among by themselves; 0: all
Subject top_k(std::int64_t n, double density, std::int64_t block) {
  struct State {
    const float* values;
    std::vector<std::uint32_t> places;
    TopKSelector selector;
  };
  const auto state = std::make_shared<State>();
  state->values = typed_gradient(ElementType::kFloat32, n).values;
  const std::int64_t run = block == 0 ? n : block;
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 4.0 * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    return [=, &stream] {
      state->places.clear();
      for (std::int64_t first = 0; first < n; first += run) {
        const std::int64_t count = std::min(run, n - first);
        for (const std::uint32_t place : state->selector.run(state->values + first, ElementType::kFloat32, count,
                                                             top_k_count(count, density), stream)) {
          state->places.push_back(static_cast<std::uint32_t>(first) + place);
        }
      }
    };
  };
  subject.check = [=] {
    std::vector<float> found(static_cast<std::size_t>(n));
    for (const std::uint32_t place : state->places) found[place] = state->values[place];
    return found == kept_elements(sparse_shape(n, density, block), {state->values, static_cast<std::size_t>(n)});
  };
  return subject;
}

}  // namespace

void register_top_k() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      for (const char* const percent : {"0.1", "1", "10"}) {
        const std::string name = std::string("top_k_") + percent + "%";
        const double density = std::stod(percent) / 100;
        register_subject(bench_name(name, "f32", n, threads), n, threads, [=] { return top_k(n, density, 0); });
      }
    }
    register_subject(bench_name("top_k_blocks_1%", "f32", n, 1), n, 1, [=] { return top_k(n, 0.01, 4096); });
  }
}

}  // namespace terngrad::bench
