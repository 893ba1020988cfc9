// UploadedTable: a table of plain values for kernels, uploaded only when it changes.
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

/// Tables of a step (addresses of tensors, scalers and payloads) rarely change after the first step. The caller passes
/// the table each time; memory is allocated and copied only if a byte differs from the last upload. Use each object
/// with one stream only.
template <class T>
class UploadedTable {
  static_assert(std::has_unique_object_representations_v<T>, "padding bytes would differ by chance");

 public:
  explicit UploadedTable(Device device) : memory_(0, device) {}

  /// Returns the table in device memory, uploading it if it changed.
  /// @throws InvalidArgument if it changed during graph capture, since replays would read the host's memory: run the
  /// work once before the capture
  const T* on_device(std::span<const T> table, Stream& stream) {
    if (is_current(table)) return memory_.data();
    TERNGRAD_REQUIRE(!cuda::is_capturing(stream),
                     "[cuda] a table of tensors changed while the stream is captured: run once with it before");
    const auto count = static_cast<std::int64_t>(table.size());
    last_.clear();  // if the upload fails, the device contents are unknown
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
