// HostCoder on the CPU. See also host_copies_test.cpp (device gradients) and klevel_codec_test.cpp (the codec of
// docs/adding-a-codec.md).
#include "compress/codec/host_coder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/statistics/scaler.h"
#include "support/bytes_codec.h"
#include "support/codec_conformance.h"
#include "support/codec_messages.h"

namespace terngrad::host_coder_test {
namespace {

using testing::Bytes;

TEST(HostCoder, MakesACodecThatKeepsWhatAllCodecsPromise) {
  testing::check_codec([](int) { return std::make_unique<Bytes>(); });
}

TEST(HostCoder, ATensorThatIsNotFiniteIsEncodedAsZeros) {
  const Layout layout = testing::small_layout();
  testing::Tensors tensors = testing::gaussian_tensors(layout, 4);
  tensors.values[0][5] = std::numeric_limits<float>::quiet_NaN();
  const testing::Sent sent = testing::send(Bytes(), layout, tensors, 0, {{0, 0, 9000}, {2, 0, 7}}, {1.0f, 1.0f});
  EXPECT_TRUE(std::ranges::all_of(sent.payload(0), [](std::uint8_t byte) { return byte == 0; }));
  EXPECT_FALSE(std::ranges::all_of(sent.payload(1), [](std::uint8_t byte) { return byte == 0; }));
}

/// Three scalers per tensor; worker scalers mark the second one of the first tensor as NaN.
class ThreeScalers final : public Bytes {
 public:
  std::int64_t num_scalers(std::int64_t n) const override { return n > 0 ? 3 : 0; }
};

class OneIsNan final : public HostCoder {
 public:
  OneIsNan(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : HostCoder(codec, setup, segments, slots) {}

 private:
  void measure_worker(const TensorTable&, std::span<float> row, Stream&) override {
    std::ranges::fill(row, 1.0f);
    row[1] = canonical_nan();
  }
  std::int64_t encode_slice(const EncodeTask&, Stream&) override { return 0; }
};

TEST(HostCoder, OneScalerFlagsAllOfItsTensor) {
  const Layout layout = testing::small_layout();
  const testing::Tensors tensors = testing::gaussian_tensors(layout, 4);
  const ThreeScalers codec;
  PayloadSlots slots;
  const CoderSetup setup{.layout = layout, .workers = {.num_local_workers = 1}};
  OneIsNan coder(codec, setup, testing::all_segments(layout), slots);
  Stream stream(Device::cpu(), 1);
  coder.measure({&tensors.table, 1}, {}, stream);
  const std::span<const float> row = coder.local_row(0);
  ASSERT_EQ(row.size(), 6u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(row[i])) << i;
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(row[i], 1.0f) << i;
}

// Bytes reads a scaler, which slices without elements do not have.
TEST(HostCoder, EncodesNothingOfASliceWithoutElements) {
  const Layout layout = testing::small_layout();
  const testing::Tensors tensors = testing::gaussian_tensors(layout, 4);
  const testing::Sent sent = testing::send(Bytes(), layout, tensors, 0, {{1, 0, 0}, {2, 0, 7}}, {1.0f, 1.0f});
  EXPECT_TRUE(sent.payload(0).empty());
  EXPECT_EQ(sent.payload(1).size(), 8u);
}

TEST(HostCoder, OfTheCpuGoesNowhere) {
  PayloadSlots slots;
  const auto coder = Bytes().make_coder({.layout = testing::small_layout()}, {0, 2}, slots);
  EXPECT_FALSE(coder->goes_through_host());
}

}  // namespace
}  // namespace terngrad::host_coder_test
