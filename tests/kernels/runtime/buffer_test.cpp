#include "kernels/runtime/buffer.h"

#include <gtest/gtest.h>

#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace terngrad::buffer_test {
namespace {

TEST(Buffer, IsAlignedToACacheLineForEverySize) {
  for (std::int64_t n = 1; n < 300; ++n) {
    Buffer<float> buffer(n);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kBufferAlignment, 0u) << n;
    ASSERT_EQ(buffer.num_elements(), n);
    ASSERT_EQ(buffer.span().size(), static_cast<std::size_t>(n));
    for (float& value : buffer.span()) value = 1;  // the address sanitizer checks the whole range
  }
}

TEST(HugePages, AreAskedForOfAnyPartOfMemory) {
  std::vector<char> memory(std::size_t{6} << 20);
  for (const std::size_t first : {0u, 1u, 4095u, 4096u}) {
    memory.front() = memory.back() = 7;
    prefer_huge_pages(memory.data() + first, memory.size() - 2 * first);
    EXPECT_EQ(memory.front() + memory.back(), 14);
  }
  prefer_huge_pages(nullptr, 0);
}

TEST(Buffer, OfNothingOwnsNothing) {
  const Buffer<double> buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.span().empty());
}

TEST(Buffer, MovesWithItsContents) {
  Buffer<int> a(3);
  a.data()[2] = 7;
  const int* memory = a.data();
  Buffer<int> b(std::move(a));
  EXPECT_EQ(b.data(), memory);
  Buffer<int> c(5);
  c = std::move(b);
  EXPECT_EQ(c.data(), memory);
  EXPECT_EQ(c.num_elements(), 3);
  EXPECT_EQ(c.data()[2], 7);
}

TEST(Buffer, RefusesASizeWhoseBytesOverflow) {
  EXPECT_THROW(Buffer<double>(std::int64_t{1} << 61), std::bad_alloc);  // 2^64 bytes
  EXPECT_THROW(Buffer<double>((std::int64_t{1} << 61) + 1), std::bad_alloc);
}

TEST(Buffer, RefusesANegativeSize) { EXPECT_THROW(Buffer<float>(-1), std::bad_alloc); }

TEST(Zeros, AreZero) {
  const Buffer<std::uint32_t> buffer = zeros<std::uint32_t>(1000);
  for (const std::uint32_t value : buffer.span()) ASSERT_EQ(value, 0u);
  EXPECT_EQ(zeros<float>(0).num_elements(), 0);
}

}  // namespace
}  // namespace terngrad::buffer_test
