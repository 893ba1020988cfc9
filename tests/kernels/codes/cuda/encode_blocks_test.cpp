// Encode blocks on a GPU against the CPU backend, bit for bit.
#include "kernels/codes/encode_blocks.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::cuda_encode_blocks_test {
namespace {

using testing::bits_of;
using testing::to_device;
using testing::to_host;
using CudaEncodeBlocks = testing::CudaTest;

const DrawKey kKey = {.seed = 99, .step = 12, .worker = 1, .purpose = DrawPurpose::kTernarize};

/// Scalers and payloads of all tensors, encoded on one device.
struct Encoded {
  std::vector<std::vector<float>> scalers;
  std::vector<std::vector<std::uint32_t>> payloads;
};

Encoded encode(std::span<const std::vector<float>> tensors, std::int64_t block_elements, double clip_factor,
               const Device& device) {
  Stream stream(device, 1);
  std::vector<Buffer<float>> gradients;
  std::vector<Buffer<float>> scalers;
  std::vector<Buffer<std::uint32_t>> payloads;
  std::vector<EncodeBlocksTask> tasks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto count = static_cast<std::int64_t>(tensors[i].size());
    gradients.push_back(to_device<float>(tensors[i], stream));
    scalers.emplace_back(num_blocks(0, count, block_elements), device);
    payloads.emplace_back((count + 15) / 16, device);
    tasks.push_back({.gradient = gradients.back().data(),
                     .count = count,
                     .draw_offset = static_cast<std::int64_t>(i) * (1 << 20),
                     .block_elements = block_elements,
                     .scalers = scalers.back().data(),
                     .payload = reinterpret_cast<std::uint8_t*>(payloads.back().data()),
                     .worker = static_cast<std::uint32_t>(i % 3)});
  }
  encode_blocks(tasks, clip_factor, ScalerRule::kPaper, kKey, stream);
  Encoded result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    result.scalers.push_back(to_host<float>(scalers[i].span(), stream));
    result.payloads.push_back(to_host<std::uint32_t>(payloads[i].span(), stream));
  }
  return result;
}

void expect_same(std::span<const std::vector<float>> tensors, std::int64_t block_elements, double clip_factor) {
  const Encoded cpu = encode(tensors, block_elements, clip_factor, Device::cpu());
  const Encoded cuda = encode(tensors, block_elements, clip_factor, Device::cuda());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t block = 0; block < cpu.scalers[i].size(); ++block) {
      ASSERT_EQ(bits_of(cuda.scalers[i][block]), bits_of(cpu.scalers[i][block])) << i << ' ' << block;
    }
    ASSERT_EQ(cuda.payloads[i], cpu.payloads[i]) << "tensor " << i << ", blocks of " << block_elements;
  }
}

TEST_F(CudaEncodeBlocks, IsTheCpusForRaggedTensorsAndAnyBlock) {
  std::vector<std::vector<float>> tensors;
  for (const std::size_t n : {1u, 0u, 15u, 4096u, 4097u, 40001u, 8192u}) tensors.push_back(testing::gaussian(n, n + 1));
  for (const std::int64_t block : {4096, 8192, 12288, 32768}) {
    for (const double clip_factor : {0.0, 2.5}) expect_same(tensors, block, clip_factor);
  }
}

TEST_F(CudaEncodeBlocks, TakesBlocksOfMoreChunksThanSlots) {
  // 260 chunks: slots 0 to 3 have two each.
  const std::vector<std::vector<float>> tensors = {
      testing::gaussian(static_cast<std::size_t>(300 * kChunkElements), 5)};
  expect_same(tensors, 260 * kChunkElements, 2.5);
}

TEST_F(CudaEncodeBlocks, AddsUpInTheOrderOfTheTree) {
  // The variance of nearly equal numbers cancels, so another order of additions gives another scaler.
  std::vector<std::vector<float>> tensors;
  for (const std::size_t chunks : {1u, 3u, 40u, 80u}) {
    tensors.push_back(testing::gaussian(chunks * static_cast<std::size_t>(kChunkElements) - chunks, chunks));
    for (float& value : tensors.back()) value = 1 + 2e-6f * value;
  }
  for (const std::int64_t chunks : {1, 2, 3, 32, 50}) expect_same(tensors, chunks * kChunkElements, 2.5);
}

TEST_F(CudaEncodeBlocks, FlagsBlocksThatAreNotFinite) {
  std::vector<std::vector<float>> tensors = {testing::gaussian(20000, 6)};
  tensors[0][5000] = std::numeric_limits<float>::quiet_NaN();
  tensors[0][9000] = std::numeric_limits<float>::infinity();
  expect_same(tensors, 4096, 2.5);
}

TEST_F(CudaEncodeBlocks, TakesTheStepFromTheDevice) {
  const std::vector<std::vector<float>> tensors = {testing::gaussian(9000, 7)};
  Stream stream(Device::cuda());
  const Buffer<float> gradient = to_device<float>(tensors[0], stream);
  Buffer<float> scalers(3, Device::cuda());
  Buffer<std::uint32_t> payload(563, Device::cuda());
  const Buffer<std::uint64_t> step = to_device<std::uint64_t>(std::vector<std::uint64_t>{kKey.step}, stream);
  DrawKey key = kKey;
  key.step = 77;  // ignored: the step comes from the device
  BlockEncoder encoder(Device::cuda());
  const EncodeBlocksTask task = {.gradient = gradient.data(),
                                 .count = 9000,
                                 .draw_offset = 0,
                                 .block_elements = 4096,
                                 .scalers = scalers.data(),
                                 .payload = reinterpret_cast<std::uint8_t*>(payload.data())};
  encoder.run({&task, 1}, 2.5, ScalerRule::kPaper, key, stream, step.data());
  EXPECT_EQ(to_host<std::uint32_t>(payload.span(), stream), encode(tensors, 4096, 2.5, Device::cpu()).payloads[0]);
}

}  // namespace
}  // namespace terngrad::cuda_encode_blocks_test
