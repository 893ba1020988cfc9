// Parts of a step of mixed_layout(), and gradients that are not finite in some of them.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "compress/exchange/bucket_plan.h"
#include "support/exchanges.h"

namespace terngrad::testing {

/// From one tensor per part to one part, in several orders. Tensor 2 is empty.
inline const Buckets kAllParts[] = {
    {{6}, {5}, {4}, {2, 3}, {1}, {0}}, {{5, 6}, {4, 2, 3}, {0, 1}}, {{0, 3, 6}, {1, 2, 4, 5}}, {{6, 5, 4, 3, 2, 1, 0}}};

/// Gradients of three workers: with infinities in tensors of several workers, with means that overflow, and with both.
inline std::vector<std::vector<Tensors>> damaged_gradients(const Layout& layout) {
  std::vector<std::vector<Tensors>> all;
  for (const auto& [is_infinite, overflows] : {std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
    std::vector<Tensors> workers = worker_gradients(layout, 3);
    if (is_infinite) {
      workers[2].values[0].back() = workers[0].values[5].back() = std::numeric_limits<float>::infinity();
      workers[1].values[3].back() = -std::numeric_limits<float>::infinity();
    }
    for (Tensors& worker : workers) {
      if (overflows) worker.values[6].back() = 3e38f;
      if (overflows && !is_infinite) worker.values[5].back() = 3e38f;
    }
    all.push_back(std::move(workers));
  }
  return all;
}

}  // namespace terngrad::testing
