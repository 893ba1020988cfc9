// Float payloads on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/float_payload.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::float_payload_test {
namespace {

using testing::to_device;
using testing::to_host;
using CudaFloatPayload = testing::CudaTest;

/// Packs slices of many lengths, some of them flagged; their payloads one after the other, each at a multiple of 8
/// bytes.
std::vector<std::uint64_t> pack(FloatPayload form, std::size_t misalignment, const Device& device) {
  Stream stream(device, 1);
  std::vector<Buffer<float>> values;
  const std::vector<float> flags = {1.0f, std::numeric_limits<float>::quiet_NaN(), 0.0f};
  const Buffer<float> flags_on_device = to_device<float>(flags, stream);
  std::vector<std::size_t> counts = {0, 1, 2, 3, 4, 5, 31, 4095, 4096, 4097, 9001};
  std::size_t words = 0;
  for (const std::size_t count : counts) words += (count * 4 + 7) / 8;
  Buffer<std::uint64_t> payload(static_cast<std::int64_t>(words), device);
  fill_zero(payload.span(), stream);
  std::vector<FloatPayloadTask> tasks;
  std::size_t word = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::vector<float> source(misalignment, 0.0f);
    for (const float value : testing::gaussian(counts[i], i + 1)) source.push_back(value);
    values.push_back(to_device<float>(source, stream));
    tasks.push_back({.values = values.back().data() + misalignment,
                     .count = static_cast<std::int64_t>(counts[i]),
                     .flag = i % 4 == 3 ? nullptr : flags_on_device.data() + i % 3,
                     .payload = payload.data() + word});
    word += (counts[i] * 4 + 7) / 8;
  }
  FloatPacker packer(form, device);
  packer.run(tasks, stream);
  return to_host<std::uint64_t>(payload.span(), stream);
}

TEST_F(CudaFloatPayload, IsTheCpus) {
  for (const FloatPayload form : {FloatPayload::kFloat32, FloatPayload::kBfloat16, FloatPayload::kRoundedBfloat16}) {
    for (const std::size_t misalignment : {0u, 1u, 2u, 3u}) {
      const std::vector<std::uint64_t> cpu = pack(form, misalignment, Device::cpu());
      EXPECT_EQ(pack(form, misalignment, Device::cuda()), cpu) << static_cast<int>(form) << ' ' << misalignment;
      EXPECT_NE(cpu, std::vector<std::uint64_t>(cpu.size()));
    }
  }
}

TEST(FloatPayload, WritesZerosWhereTheFlagIsNan) {
  Stream stream(Device::cpu(), 1);
  const float values[] = {1.0f, 2.0f, 3.0f};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::uint32_t payload[2] = {~0u, ~0u};
  FloatPacker packer(FloatPayload::kBfloat16);
  const FloatPayloadTask task = {.values = values, .count = 3, .flag = &nan, .payload = payload};
  packer.run({&task, 1}, stream);
  EXPECT_EQ(payload[0], 0u);
  EXPECT_EQ(payload[1], 0u);
}

TEST(FloatPayload, FillsAnOddPayloadUpWithZeros) {
  Stream stream(Device::cpu(), 1);
  const float values[] = {1.0f};
  std::uint32_t payload = ~0u;
  FloatPacker packer(FloatPayload::kBfloat16);
  const FloatPayloadTask task = {.values = values, .count = 1, .payload = &payload};
  packer.run({&task, 1}, stream);
  EXPECT_EQ(payload, 0x3f80u);
}

TEST(FloatPayload, RefusesWhatItCannotHonour) {
  Stream stream(Device::cpu(), 1);
  FloatPacker packer(FloatPayload::kFloat32);
  alignas(4) std::uint8_t bytes[8];
  const FloatPayloadTask task = {.values = nullptr, .count = 0, .payload = bytes + 2};
  EXPECT_THROW(packer.run({&task, 1}, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::float_payload_test
