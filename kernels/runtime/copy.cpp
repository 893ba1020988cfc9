#include "kernels/runtime/copy.h"

#include <cstring>

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad::detail {

void copy_bytes(void* to, const void* from, std::size_t to_bytes, std::size_t from_bytes, Stream& stream) {
  TERNGRAD_REQUIRE(to_bytes == from_bytes, "[copy] lengths differ: ", from_bytes, " bytes into ", to_bytes);
  if (to_bytes == 0) return;
  if (stream.device().is_cuda()) return cuda::copy(to, from, to_bytes, stream);
  std::memcpy(to, from, to_bytes);
}

void zero_bytes(void* memory, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (stream.device().is_cuda()) return cuda::fill_zero(memory, bytes, stream);
  std::memset(memory, 0, bytes);
}

}  // namespace terngrad::detail
