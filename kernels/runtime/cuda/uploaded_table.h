// UploadedTable: a table of plain values that kernels read, uploaded when it has changed.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// The tables of a step (where tensors, scalers and payloads are) are the same in every step but the first. So a
/// kernel's caller hands over the table each time, and nothing is allocated or copied unless a byte differs. Serves one
/// stream.
template <class T>
class UploadedTable {
  static_assert(std::has_unique_object_representations_v<T>, "padding bytes would differ by chance");

 public:
  explicit UploadedTable(Device device) : memory_(0, device) {}

  /// The table in device memory.
  /// @throws InvalidArgument if it differs from the last one while the stream is captured into a graph: the graph would
  /// read the host's memory when it is replayed. Run once before the capture
  const T* on_device(std::span<const T> table, Stream& stream) {
    if (is_current(table)) return memory_.data();
    TERNGRAD_REQUIRE(!cuda::is_capturing(stream),
                     "[cuda] a table of tensors changed while the stream is captured: run once with it before");
    const auto count = static_cast<std::int64_t>(table.size());
    last_.clear();  // of what is there if something fails, nothing is known
    grow(memory_, count, stream);
    copy<T>(table, memory_.span().first(table.size()), stream);
    last_.assign(table.begin(), table.end());
    return memory_.data();
  }

 private:
  bool is_current(std::span<const T> table) const {
    return table.size() == last_.size() &&
           (table.empty() || std::memcmp(table.data(), last_.data(), table.size_bytes()) == 0);
  }
  Buffer<T> memory_;
  std::vector<T> last_;
};

}  // namespace terngrad::cuda
