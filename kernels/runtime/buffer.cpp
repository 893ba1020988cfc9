#include "kernels/runtime/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

void prefer_huge_pages(void* memory, std::size_t bytes) noexcept {
  constexpr std::size_t kSmallest = std::size_t{4} << 20;
  constexpr std::uintptr_t kPage = 4096;  // alignment for madvise; the kernel finds the huge pages inside
  if (bytes < kSmallest) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (address + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

namespace detail {

void* allocate(const Device& device, std::int64_t count, std::size_t value_bytes) {
  if (count == 0) return nullptr;
  const std::size_t most = std::numeric_limits<std::size_t>::max() - kBufferAlignment;
  if (count < 0 || static_cast<std::size_t>(count) > most / value_bytes) throw std::bad_alloc();
  const std::size_t bytes = static_cast<std::size_t>(count) * value_bytes;
  if (device.is_cuda()) return cuda::allocate(device.index(), bytes);
  const std::size_t rounded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  void* memory = std::aligned_alloc(kBufferAlignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  prefer_huge_pages(memory, rounded);
  return memory;
}

void deallocate(const Device& device, void* memory) noexcept {
  if (memory == nullptr) return;
  if (device.is_cuda()) return cuda::deallocate(device.index(), memory);
  std::free(memory);
}

}  // namespace detail
}  // namespace terngrad
