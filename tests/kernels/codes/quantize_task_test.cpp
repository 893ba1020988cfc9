#include "kernels/codes/quantize_task.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/codes/cpu/quantize_task.h"
#include "kernels/codes/ternary.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"
#include "support/reference.h"

namespace terngrad::quantize_task_test {
namespace {

using reference::Bytes;

TEST(CheckQuantizeTasks, RefusesWhatKernelsCannotRead) {
  float gradient[64] = {};
  const QuantizeTask good{.gradient = gradient, .count = 64};
  EXPECT_EQ(check_quantize_tasks({&good, 1}, 4, "test"), ElementType::kFloat32);
  EXPECT_EQ(check_quantize_tasks({}, 4, "test"), ElementType::kFloat32);
  const auto refused = [](const QuantizeTask& task) {
    EXPECT_THROW(check_quantize_tasks({&task, 1}, 4, "test"), InvalidArgument);
  };
  QuantizeTask task = good;
  task.count = -1;
  refused(task);
  task = good;
  task.first = 64;
  refused(task);
  task = good;
  task.draw_offset = 32;
  refused(task);
  task = good;
  task.block_elements = 96;
  refused(task);
  task = good;
  task.payload = reinterpret_cast<std::uint8_t*>(gradient) + 2;
  refused(task);
  task = good;
  task.gradient = reinterpret_cast<std::uint8_t*>(gradient) + 2;
  refused(task);
  const QuantizeTask of_types[] = {good, {.gradient = gradient, .type = ElementType::kBfloat16}};
  EXPECT_THROW(check_quantize_tasks(of_types, 4, "test"), InvalidArgument);
}

/// Stores the elements themselves as codes: tests their places and the arguments of the rounding rule.
Bytes stored(std::span<const float> gradient, const cpu::CodeStore& store, std::int64_t bytes, int threads) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes + 7) / 8 + 1, ~std::uint64_t{0});
  const QuantizeTask task{.gradient = gradient.data(),
                          .first = kChunkElements,
                          .count = static_cast<std::int64_t>(gradient.size()),
                          .payload = reinterpret_cast<std::uint8_t*>(words.data()),
                          .worker = 5};
  Stream stream(Device::cpu(), threads);
  cpu::quantize_tasks({&task, 1}, store, Rounding::kStochastic, {.worker = 3}, stream,
                      [&](const QuantizeTask& given, const float* values, std::int64_t begin, std::int64_t count,
                          const DrawKey& key, std::span<const std::byte>, cpu::ChunkDraws&, std::uint8_t* codes) {
                        EXPECT_EQ(key.worker, 8u);
                        EXPECT_EQ(given.first, kChunkElements);
                        EXPECT_EQ(values, gradient.data() + begin);
                        std::memset(codes, 0xff, static_cast<std::size_t>((count + 63) / 64 * 64));
                        for (std::int64_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(values[i]);
                      });
  const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
  EXPECT_EQ(begin[bytes], 0xff) << "wrote behind the payload";
  return {begin, begin + bytes};
}

TEST(QuantizeTasks, StoreCodesWhereTheyBelong) {
  for (const std::int64_t n : {0, 1, 3, 8, 15, 17, 4095, 4096, 4097, 70001}) {
    std::vector<float> gradient(static_cast<std::size_t>(n));
    std::vector<std::int8_t> ternary(gradient.size());
    std::vector<int> counts(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      counts[i] = static_cast<int>(i * 7919 / 16 % 3);
      gradient[i] = static_cast<float>(counts[i]);
      ternary[i] = static_cast<std::int8_t>(counts[i] - 1);
    }
    Bytes nibbles(static_cast<std::size_t>(payload_bytes(CodeFormat::kQ4, n, 1)));
    Bytes bytes(static_cast<std::size_t>(payload_bytes(CodeFormat::kQ8, n, 1)));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      nibbles[i / 2] = static_cast<std::uint8_t>(nibbles[i / 2] | counts[i] << (i % 2 * 4));
      bytes[i] = static_cast<std::uint8_t>(counts[i]);
    }
    for (const int threads : {1, 3}) {
      const auto expect = [&](CodeFormat format, const Bytes& expected, int num_workers = 1) {
        const cpu::CodeStore store{.format = format,
                                   .lane_bits = format == CodeFormat::kLanes ? lane_bits(num_workers) : 0};
        EXPECT_EQ(stored(gradient, store, static_cast<std::int64_t>(expected.size()), threads), expected)
            << to_string(format) << " of " << n << ", " << threads << " threads";
      };
      expect(CodeFormat::kT2, reference::pack_t2(ternary));
      expect(CodeFormat::kQ4, nibbles);
      expect(CodeFormat::kQ8, bytes);
      for (const int workers : {1, 3, 100}) {
        expect(CodeFormat::kLanes, reference::pack_lanes(counts, 0, workers), workers);
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::quantize_task_test
