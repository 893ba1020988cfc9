// WorkerBuffers: one flat buffer for each local worker, at equal distances in one allocation.
#pragma once

#include <cstdint>

namespace terngrad {

/// Worker w's values begin at data + w * stride. Kernels that serve all workers in one launch take them so.
template <class T>
struct WorkerBuffers {
  T* data = nullptr;
  std::int64_t stride = 0;  // in elements
  T* of(int worker) const { return data + worker * stride; }
  /// The same for a part of each buffer that begins `offset` elements after its start.
  WorkerBuffers from(std::int64_t offset) const { return {data + offset, stride}; }
};

}  // namespace terngrad
