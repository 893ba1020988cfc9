// CUDA graphs of the kernels that support capture, launched several times.
#include "kernels/runtime/captured_graph.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "support/cuda_device.h"
#include "support/gradients.h"

namespace terngrad::captured_graph_test {
namespace {

using testing::to_device;
using testing::to_host;
using CudaCapturedGraph = testing::CudaTest;

TEST_F(CudaCapturedGraph, RunsWhenItIsLaunchedAndNotBefore) {
  Stream stream(Device::cuda());
  Buffer<int> from = to_device<int>(std::vector<int>{1, 2, 3}, stream);
  Buffer<int> to = to_device<int>(std::vector<int>{0, 0, 0}, stream);
  stream.synchronize();
  const CapturedGraph graph(stream, [&] { copy<int>(from.span(), to.span(), stream); });
  EXPECT_EQ(to_host<int>(to.span(), stream), (std::vector<int>{0, 0, 0}));
  graph.launch(stream);
  EXPECT_EQ(to_host<int>(to.span(), stream), (std::vector<int>{1, 2, 3}));
  copy<int>(std::vector<int>{7, 8, 9}, from.span(), stream);
  graph.launch(stream);
  EXPECT_EQ(to_host<int>(to.span(), stream), (std::vector<int>{7, 8, 9}));
}

/// A tensor that is encoded with scalers computed on the device.
struct Encoding {
  Stream stream{Device::cuda()};
  Layout layout;
  Buffer<float> gradient;
  Buffer<float> scaler{1, Device::cuda()};
  Buffer<std::uint64_t> step;
  Buffer<std::uint32_t> payload{563, Device::cuda()};
  std::unique_ptr<StatisticsPlan> plan;
  Ternarizer ternarizer{Device::cuda()};

  Encoding() {
    layout.add("x", {9000});
    gradient = to_device<float>(testing::gaussian(9000, 1), stream);
    step = to_device<std::uint64_t>(std::vector<std::uint64_t>{1}, stream);
    plan = std::make_unique<StatisticsPlan>(whole_segments(layout), Device::cuda());
  }

  void submit() {
    const TensorTable table(layout, gradient.data());
    local_scalers(*plan, {&table, 1}, 2.5, ScalerRule::kPaper, scaler.span(), stream);
    const TernarizeTask task = {.gradient = gradient.data(),
                                .count = 9000,
                                .scalers = scaler.data(),
                                .payload = reinterpret_cast<std::uint8_t*>(payload.data())};
    std::int64_t bytes = 0;
    ternarizer.run({&task, 1}, {}, {.seed = 3}, {&bytes, 1}, stream, step.data());
  }
};

TEST_F(CudaCapturedGraph, DrawsAfreshWhenTheStepOnTheDeviceHasChanged) {
  Encoding eager;
  Encoding captured;
  captured.submit();
  const CapturedGraph graph(captured.stream, [&] { captured.submit(); });
  for (const std::uint64_t step : {1u, 2u, 3u}) {
    for (Encoding* encoding : {&eager, &captured}) {
      copy<std::uint64_t>(std::vector<std::uint64_t>{step}, encoding->step.span(), encoding->stream);
    }
    eager.submit();
    graph.launch(captured.stream);
    EXPECT_EQ(to_host<std::uint32_t>(captured.payload.span(), captured.stream),
              to_host<std::uint32_t>(eager.payload.span(), eager.stream));
  }
}

TEST_F(CudaCapturedGraph, RefusesWhatHasNotRunBefore) {
  Encoding encoding;
  EXPECT_ANY_THROW(CapturedGraph(encoding.stream, [&] { encoding.submit(); }));
  encoding.submit();  // the stream is usable again
  encoding.stream.synchronize();
}

TEST_F(CudaCapturedGraph, PassesOnWhatTheWorkThrows) {
  Stream stream(Device::cuda());
  EXPECT_THROW(CapturedGraph(stream, [] { throw std::out_of_range("of the work"); }), std::out_of_range);
  stream.synchronize();
}

TEST_F(CudaCapturedGraph, RefusesTmask) {
  Encoding encoding;
  const auto submit = [&] {
    const TernarizeTask task = {.gradient = encoding.gradient.data(),
                                .count = 4096,
                                .scalers = encoding.scaler.data(),
                                .payload = reinterpret_cast<std::uint8_t*>(encoding.payload.data())};
    std::int64_t bytes = 0;
    encoding.ternarizer.run({&task, 1}, {.format = TernaryFormat::kTMask}, {.seed = 3}, {&bytes, 1}, encoding.stream);
  };
  submit();
  EXPECT_THROW(CapturedGraph(encoding.stream, submit), InvalidArgument);
}

TEST_F(CudaCapturedGraph, SaysWhenAStreamIsCaptured) {
  Stream stream(Device::cuda());
  bool while_captured = false;
  const CapturedGraph graph(stream, [&] { while_captured = is_capturing(stream); });
  EXPECT_TRUE(while_captured);
  EXPECT_FALSE(is_capturing(stream));
}

TEST(CapturedGraph, IsNotForTheCpu) {
  EXPECT_FALSE(is_capturing(Stream(Device::cpu(), 1)));
  Stream stream;
  EXPECT_THROW(CapturedGraph(stream, [] {}), NotSupported);
}

}  // namespace
}  // namespace terngrad::captured_graph_test
