// Copies of images into a batch on a GPU.
#include "datasets/cuda/copy_images.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "tests/support/bits.h"
#include "tests/support/cuda_device.h"
#include "tests/support/gradients.h"

namespace terngrad::cuda_copy_images_test {
namespace {

using testing::bits_of;
using testing::to_device;
using testing::to_host;
using CudaCopyImages = testing::CudaTest;

constexpr std::uint64_t kSlots = 3;

TEST_F(CudaCopyImages, GatherTakesTheImagesOfTheSlot) {
  Stream stream(Device::cuda());
  // Sizes below, at and above a tile of floats and of vectors; more tiles than blocks per image.
  for (const std::int64_t elements : {1, 3, 4, 511, 512, 513, 784, 2047, 2048, 2052, 33'001, 131'080}) {
    const std::vector<std::uint32_t> wanted = {4, 0, 4, 2, 1};
    const auto values = static_cast<std::size_t>(elements);
    const std::vector<float> examples = testing::gaussian(5 * values, 1);
    std::vector<cuda::BatchEntry> entries(kSlots * wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      entries[2 * wanted.size() + i] = {.epoch = 9, .index = wanted[i], .label = static_cast<std::int32_t>(i) - 7};
    }
    const Buffer<float> source = to_device<float>(examples, stream);
    const Buffer<cuda::BatchEntry> ring = to_device<cuda::BatchEntry>(entries, stream);
    const Buffer<std::uint64_t> step = to_device<std::uint64_t>(std::vector<std::uint64_t>{kSlots * 1000 + 2}, stream);
    Buffer<float> images(static_cast<std::int64_t>(wanted.size()) * elements, stream.device());
    Buffer<std::int32_t> labels(static_cast<std::int64_t>(wanted.size()), stream.device());
    cuda::gather_images(source.data(), elements, ring.data(),
                        {.num_slots = kSlots, .batch = labels.num_elements(), .step = {.on_device = step.data()}},
                        {.images = images.data(), .labels = labels.data()}, stream);
    const std::vector<float> found = to_host<float>(images.span(), stream);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(bits_of(std::span(found).subspan(i * values, values)),
                bits_of(std::span(examples).subspan(wanted[i] * values, values)))
          << elements << " values, place " << i;
    }
    EXPECT_EQ(to_host<std::int32_t>(labels.span(), stream), (std::vector<std::int32_t>{-7, -6, -5, -4, -3}));
  }
}

TEST_F(CudaCopyImages, SlotIsCopiedWhole) {
  Stream stream(Device::cuda());
  for (const std::int64_t values : {4, 2044, 2048, 2052, 10'000}) {
    for (const std::int64_t batch : {1, 5, 700}) {
      const std::vector<float> slots = testing::gaussian(kSlots * static_cast<std::size_t>(values), 2);
      std::vector<std::int32_t> slot_labels(kSlots * static_cast<std::size_t>(batch));
      for (std::size_t i = 0; i < slot_labels.size(); ++i) slot_labels[i] = static_cast<std::int32_t>(i);
      const Buffer<float> ring = to_device<float>(slots, stream);
      const Buffer<std::int32_t> ring_labels = to_device<std::int32_t>(slot_labels, stream);
      Buffer<float> images(values, stream.device());
      Buffer<std::int32_t> labels(batch, stream.device());
      for (const unsigned step : {0u, 1u, 5u}) {
        cuda::copy_slot(ring.data(), values, ring_labels.data(),
                        {.num_slots = kSlots, .batch = batch, .step = {.step = step}},
                        {.images = images.data(), .labels = labels.data()}, stream);
        const auto slot = static_cast<std::size_t>(step % kSlots);
        ASSERT_EQ(bits_of(to_host<float>(images.span(), stream)),
                  bits_of(std::span(slots).subspan(slot * static_cast<std::size_t>(values),
                                                   static_cast<std::size_t>(values))));
        const std::vector<std::int32_t> found = to_host<std::int32_t>(labels.span(), stream);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i], static_cast<std::int32_t>(slot * found.size() + i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda_copy_images_test
