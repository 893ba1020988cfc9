#include "kernels/runtime/pinned_buffer.h"

#include <cstring>
#include <limits>
#include <new>

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/cuda/uploads.h"
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

void upload_bytes(void* to, const void* from, std::size_t to_bytes, std::size_t from_bytes, const Stream& stream) {
  TERNGRAD_REQUIRE(to_bytes == from_bytes, "[upload] lengths differ: ", from_bytes, " bytes into ", to_bytes);
  if (to_bytes == 0) return;
  if (stream.device().is_cuda()) return cuda::upload(to, from, to_bytes, stream);
  std::memcpy(to, from, to_bytes);
}

}  // namespace terngrad::detail
