// Gradient transforms on a GPU, compared with those on the CPU.
#include "trainers/optim/gradient_transform.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "tests/support/cuda_device.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad::cuda_gradient_transform_test {
namespace {

using testing::to_device;
using testing::to_host;
class CudaGradientTransform : public testing::CudaTest {};

constexpr int kWorkers = 3;

/// LeNet on small images: tensors of many sizes, and biases without weight decay.
std::unique_ptr<Net> small_net() { return make_net("lenet", {8, 8, 1}, 10, {}); }

std::vector<float> draws(const Layout& layout, std::uint32_t worker) {
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_elements()));
  const DrawKey key{.seed = 3, .step = 0, .worker = worker, .purpose = DrawPurpose::kSyntheticData};
  for (const Segment& segment : layout.segments()) {
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      const std::uint32_t word = draw_block(key, static_cast<std::uint64_t>(segment.offset + i))[0];
      flat[static_cast<std::size_t>(segment.offset + i)] = static_cast<float>(word >> 8) * 0x1p-24f - 0.5f;
    }
  }
  return flat;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

/// Applies both transforms to the gradients of kWorkers workers; expects equal bits and counts.
void expect_same_in(const std::vector<FlatRange>& ranges, GradientTransform& host, GradientTransform& device,
                    const Layout& layout, const std::vector<std::vector<float>>& gradients) {
  Stream cpu;
  Stream stream(Device::cuda());
  const std::vector<float> parameters = draws(layout, 99);
  std::vector<float> all;
  for (const auto& gradient : gradients) all.insert(all.end(), gradient.begin(), gradient.end());
  Buffer<float> on_device = to_device<float>(all, stream);
  const Buffer<float> device_parameters = to_device<float>(parameters, stream);
  const std::vector<TransformCounts> none(1);
  Buffer<TransformCounts> counts = to_device<TransformCounts>(none, stream);
  for (const FlatRange& range : ranges) {
    device.submit(device_parameters.data(), {{on_device.data(), layout.flat_elements()}, kWorkers}, range,
                  counts.data(), stream);
  }
  TransformCounts expected;
  host.submit(parameters.data(), {{all.data(), layout.flat_elements()}, kWorkers}, whole_range(layout), &expected, cpu);
  EXPECT_EQ(bits(to_host<float>(on_device.span(), stream)), bits(all));
  const TransformCounts found = to_host<TransformCounts>(counts.span(), stream)[0];
  EXPECT_EQ(found.zeroed_elements, expected.zeroed_elements);
  EXPECT_EQ(found.clipped_gradients, expected.clipped_gradients);
}

/// Compares the whole range, and parts if the transform is per tensor.
void expect_same(GradientTransform& host, GradientTransform& device, const Layout& layout,
                 const std::vector<std::vector<float>>& gradients) {
  expect_same_in({whole_range(layout)}, host, device, layout, gradients);
  EXPECT_EQ(device.name(), host.name());
  EXPECT_EQ(device.is_per_tensor(), host.is_per_tensor());
  if (!device.is_per_tensor()) return;
  std::vector<FlatRange> parts;
  for (const std::vector<int>& segments : {std::vector<int>{1, 4, 5}, {0, 2}, {3, 6, 7}}) {
    const auto ranges = ranges_of(layout, segments);
    parts.insert(parts.end(), ranges.begin(), ranges.end());
  }
  expect_same_in(parts, host, device, layout, gradients);
}

std::vector<std::vector<float>> gradients_of(const Layout& layout) {
  std::vector<std::vector<float>> gradients;
  for (std::uint32_t w = 0; w < kWorkers; ++w) gradients.push_back(draws(layout, w));
  return gradients;
}

TEST_F(CudaGradientTransform, NanToZeroIsTheCpus) {
  const auto net = small_net();
  auto gradients = gradients_of(net->layout());
  gradients[0][3] = NAN;
  gradients[2][0] = -INFINITY;
  gradients[2].at(static_cast<std::size_t>(net->layout().segment(1).offset)) = INFINITY;
  expect_same(*make_nan_to_zero(), *make_nan_to_zero(), net->layout(), gradients);
}

TEST_F(CudaGradientTransform, WeightDecayIsTheCpus) {
  const auto net = small_net();
  for (const double decay : {0.0005, 0.25}) {
    expect_same(*make_weight_decay(*net, decay), *make_weight_decay(*net, decay, Device::cuda()), net->layout(),
                gradients_of(net->layout()));
  }
}

TEST_F(CudaGradientTransform, ClippingByGlobalNormIsTheCpus) {
  const auto net = small_net();
  const Layout& layout = net->layout();
  for (const OnNonfinite on_nonfinite : {OnNonfinite::kStop, OnNonfinite::kZero}) {
    for (const double max_norm : {1.0, 20.0, 1e9}) {
      auto gradients = gradients_of(layout);
      for (float& value : gradients[1]) value *= 4;  // norms on both sides of 20
      const auto expect_same_on = [&](const std::vector<std::vector<float>>& g) {
        expect_same(*make_clip_by_global_norm(layout, max_norm, kWorkers, on_nonfinite),
                    *make_clip_by_global_norm(layout, max_norm, kWorkers, on_nonfinite, Device::cuda()), layout, g);
      };
      expect_same_on(gradients);
      gradients[1][0] = INFINITY;
      expect_same_on(gradients);
    }
  }
  const auto clip = make_clip_by_global_norm(layout, 1, 1, OnNonfinite::kStop, Device::cuda());
  Stream stream(Device::cuda());
  EXPECT_THROW(clip->submit(nullptr, {}, range_of(layout.segment(0)), nullptr, stream), InvalidArgument);
  EXPECT_THROW(make_clip_by_global_norm(layout, 0, 1, OnNonfinite::kStop, Device::cuda()), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_gradient_transform_test
