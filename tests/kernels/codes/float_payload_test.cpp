// Float payloads on a GPU against the CPU backend, byte for byte.
#include "kernels/codes/float_payload.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::float_payload_test {
namespace {

using testing::to_device;
using testing::to_host;
using CudaFloatPayload = testing::CudaTest;

/// Gradients as 16-bit elements, with signaling, quiet and negative NaN.
std::vector<std::uint16_t> narrow(const std::vector<float>& values, ElementType type) {
  Stream stream(Device::cpu(), 1);
  std::vector<std::uint16_t> elements(values.size());
  (type == ElementType::kBfloat16 ? encode_bfloat16 : encode_float16)(values, elements, stream);
  const std::array<std::uint16_t, 3> nan = type == ElementType::kBfloat16
                                               ? std::array<std::uint16_t, 3>{0x7f81, 0x7fc1, 0xff81}
                                               : std::array<std::uint16_t, 3>{0x7c01, 0x7e01, 0xfc01};
  for (std::size_t i = 4; i < elements.size(); i += 7) elements[i] = nan[i % nan.size()];
  return elements;
}

/// Packs slices of many lengths and all types, some of them flagged. Payloads start at multiples of 8 bytes.
std::vector<std::uint64_t> pack(FloatPayload form, std::size_t misalignment, const Device& device) {
  Stream stream(device, 1);
  std::vector<Buffer<float>> values;
  std::vector<Buffer<std::uint16_t>> narrow_values;
  const std::vector<float> flags = {1.0f, std::numeric_limits<float>::quiet_NaN(), 0.0f};
  const Buffer<float> flags_on_device = to_device<float>(flags, stream);
  std::vector<std::size_t> counts;
  for (const std::size_t count : {0u, 1u, 2u, 3u, 4u, 5u, 31u, 4095u, 4096u, 4097u, 9001u}) {
    counts.insert(counts.end(), 3, count);
  }
  std::size_t words = 0;
  for (const std::size_t count : counts) words += (count * 4 + 7) / 8;
  Buffer<std::uint64_t> payload(static_cast<std::int64_t>(words), device);
  fill_zero(payload.span(), stream);
  std::vector<FloatPayloadTask> tasks;
  std::size_t word = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto type = static_cast<ElementType>(i % 3);
    std::vector<float> source(misalignment, 0.0f);
    for (const float value : testing::gaussian(counts[i], i + 1)) source.push_back(value);
    const void* from;
    if (type == ElementType::kFloat32) {
      values.push_back(to_device<float>(source, stream));
      from = values.back().data() + misalignment;
    } else {
      narrow_values.push_back(to_device<std::uint16_t>(narrow(source, type), stream));
      from = narrow_values.back().data() + misalignment;
    }
    tasks.push_back({.values = from,
                     .count = static_cast<std::int64_t>(counts[i]),
                     .flag = i % 4 == 3 ? nullptr : flags_on_device.data() + i / 3 % 3,
                     .payload = payload.data() + word,
                     .type = type});
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
