#include "trainers/run/strategy_factory.h"

#include <cstdint>
#include <string>
#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/vendor_all_reduce.h"
#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/loop/floating_epochs.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_options.h"
#include "trainers/run/host_exchange.h"

namespace terngrad {

std::unique_ptr<ServedParameters> make_served_parameters(const TrainOptions& o, const Net& net,
                                                         const WorkerGroup& workers, const Schedule& schedule) {
  if (!o.pulls_parameters()) return nullptr;
  ServedParametersOptions served;
  served.make_optimizer = [name = o.optimizer, momentum = o.momentum](std::int64_t num_elements) {
    return make_optimizer(name, {.momentum = momentum}, num_elements);
  };
  served.schedule = schedule;
  served.mean_factor = o.mean_factor();
  served.is_rounded = o.downlink_codec == DownlinkCodec::kBfloat16;
  served.num_threads = num_threads(o);
  return std::make_unique<ServedParameters>(net.layout(), workers, served);
}

HostStrategy make_host_strategy(const TrainOptions& o, const Net& net, const WorkerGroup& workers,
                                const HostStrategyContext& context) {
  const Layout& layout = net.layout();
  if (o.chosen_strategy() == TrainStrategy::kSimple)
    return {make_simple_strategy(layout, o.on_nonfinite), layout.fingerprint()};
  if (o.exchange == TrainExchange::kVendor) {
    VendorAllReduceOptions vendor;
    vendor.type = vendor_element_type(o.codec_name());
    vendor.on_nonfinite = o.on_nonfinite;
    vendor.mean_factor = o.mean_factor();
    vendor.num_threads = num_threads(o);
    return {make_replicated_strategy(layout, std::make_unique<VendorAllReduce>(layout, workers, vendor)),
            layout.fingerprint()};
  }
  try {
    const Buckets buckets = exchange_buckets(o, layout, net.gradient_order());
    std::uint64_t plan_fingerprint = 0;
    const auto in_buckets = [&](CompressedAllReduceOptions options, const std::string& memory) {
      options.update = context.update;
      HostExchange made = make_host_exchange(layout, workers, options, buckets, memory, context.dump);
      plan_fingerprint = made.plan_fingerprint;
      return make_replicated_strategy(layout, std::move(made.exchange));
    };
    const CompressedAllReduceOptions compressing = exchange_options(o, context.run_id, num_threads(o));
    check_codec_plan(o, CodecPlan(layout, with_workers(compressing.codecs, workers.num_workers)));
    std::unique_ptr<Strategy> floating;
    if (o.has_floating_steps()) {
      floating = in_buckets(floating_exchange_options(o, context.run_id, num_threads(o)), "none");
    }
    std::unique_ptr<Strategy> compressed = in_buckets(compressing, memory_spec(o));
    if (floating == nullptr) return {std::move(compressed), plan_fingerprint};
    auto both = make_floating_epochs_strategy(std::move(compressed), std::move(floating),
                                              floating_steps(o, context.num_examples));
    return {std::move(both), plan_fingerprint};
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace terngrad
