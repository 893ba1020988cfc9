#include "kernels/runtime/pinned_buffer.h"

#include <limits>
#include <new>

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad::detail {

std::shared_ptr<void> allocate_pinned(const Device& device, std::int64_t count, std::size_t value_bytes) {
  TERNGRAD_REQUIRE(device.is_cuda(), "[PinnedBuffer] memory is page-locked for a GPU, not for ", device.name());
  if (count == 0) return nullptr;
  if (count < 0 || static_cast<std::size_t>(count) > std::numeric_limits<std::size_t>::max() / value_bytes) {
    throw std::bad_alloc();
  }
  return cuda::allocate_pinned(device.index(), static_cast<std::size_t>(count) * value_bytes);
}

}  // namespace terngrad::detail
