#include "kernels/buffer.h"

#include <cstdlib>
#include <new>

#include "kernels/errors.h"

namespace terngrad::detail {

void* allocate(const Device& device, std::size_t bytes) {
  TERNGRAD_REQUIRE(device.is_cpu(), "[Buffer] no backend for device ", device.name());
  if (bytes == 0) return nullptr;
  const std::size_t rounded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded < bytes) throw std::bad_alloc();
  void* memory = std::aligned_alloc(kBufferAlignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void deallocate(const Device&, void* memory) noexcept { std::free(memory); }

}  // namespace terngrad::detail
