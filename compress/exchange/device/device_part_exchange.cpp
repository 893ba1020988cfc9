#include "compress/exchange/device/device_part_exchange.h"

#include <utility>

#include "compress/exchange/device/device_all_reduce.h"
#include "compress/exchange/device/device_low_rank_all_reduce.h"
#include "compress/plan/low_rank_rounds.h"

namespace terngrad {

std::unique_ptr<DevicePartExchange> make_device_part_exchange(const Layout& layout, CodecPlan plan,
                                                              const DevicePartContext& context,
                                                              std::vector<int> numbers) {
  if (has_low_rank(plan)) {
    return std::make_unique<DeviceLowRankAllReduce>(layout, plan, context, std::move(numbers));
  }
  return std::make_unique<DeviceAllReduce>(
      layout, std::move(plan), context.workers, context.options, context.stream, context.communicator,
      DeviceAllReduce::Part{.numbers = std::move(numbers), .nonfinite = context.nonfinite});
}

}  // namespace terngrad
