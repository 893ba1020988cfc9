#include "compress/exchange/device/device_part_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "compress/exchange/device/device_all_reduce.h"
#include "compress/exchange/device/device_low_rank_all_reduce.h"
#include "compress/memory/factor_state.h"
#include "support/cuda_device.h"

namespace terngrad::device_part_exchange_test {
namespace {

using CudaDevicePartExchange = testing::CudaTest;

TEST_F(CudaDevicePartExchange, OfTensorsOfLowRankHasTwoRoundsAndOfOthersOne) {
  Layout layout;
  layout.add("m", {40, 30});
  const Stream stream(Device::cuda());
  const WorkerRange workers = worker_range(2, 0, 1);
  for (const char* spec : {"powersgd", "ternary"}) {
    CompressedAllReduceOptions options;
    options.codecs.codec = spec;
    CodecPlan plan(layout, with_workers(options.codecs, 2));
    const bool is_low_rank = plan.codec_of(0).low_rank().has_value();
    FactorState factors(layout, plan, stream.device());
    const auto nonfinite = std::make_shared<NonfiniteFlags>(options.on_nonfinite, stream);
    const auto part = make_device_part_exchange(
        layout, std::move(plan), {workers, options, stream, make_self_device_communicator(), nonfinite, factors}, {0});
    EXPECT_EQ(dynamic_cast<DeviceLowRankAllReduce*>(part.get()) != nullptr, is_low_rank) << spec;
    EXPECT_EQ(dynamic_cast<DeviceAllReduce*>(part.get()) != nullptr, !is_low_rank) << spec;
  }
}

}  // namespace
}  // namespace terngrad::device_part_exchange_test
