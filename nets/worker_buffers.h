// WorkerBuffers: one flat buffer per local worker, with a constant stride in one allocation.
#pragma once

#include <cstdint>

namespace terngrad {

/// Worker w's values begin at data + w * stride. Argument type of kernels that process all workers in one launch.
template <class T>
struct WorkerBuffers {
  T* data = nullptr;
  std::int64_t stride = 0;  // in elements
  T* of(int worker) const { return data + worker * stride; }
  /// The parts of the buffers from element `offset` on.
  WorkerBuffers from(std::int64_t offset) const { return {data + offset, stride}; }
};

}  // namespace terngrad
