#include "nets/shared_buffers.h"

#include <algorithm>
#include <numeric>

namespace terngrad {

std::size_t SharedBuffers::acquire(std::int64_t num_elements) {
  if (free_.empty()) {
    sizes_.push_back(num_elements);
    return sizes_.size() - 1;
  }
  const auto is_better = [&](std::size_t a, std::size_t b) {
    const bool a_holds = sizes_[a] >= num_elements;
    const bool b_holds = sizes_[b] >= num_elements;
    if (a_holds != b_holds) return a_holds;
    return a_holds ? sizes_[a] < sizes_[b] : sizes_[a] > sizes_[b];
  };
  const auto best = std::ranges::min_element(free_, is_better);
  const std::size_t buffer = *best;
  free_.erase(best);
  sizes_[buffer] = std::max(sizes_[buffer], num_elements);
  return buffer;
}

void SharedBuffers::release(std::size_t buffer) { free_.push_back(buffer); }

std::int64_t SharedBuffers::num_elements() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
}

void SharedBuffers::allocate(const Device& device) {
  for (const std::int64_t size : sizes_) {
    buffers_.push_back(device.is_cpu() ? zeros<float>(size) : Buffer<float>(size, device));
  }
}

}  // namespace terngrad
