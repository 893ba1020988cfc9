#include "trainers/run/net_factory.h"

#include <algorithm>
#include <iterator>

#include "datasets/dataset.h"
#include "kernels/runtime/errors.h"
#include "nets/net_plan.h"
#include "nets/offloaded_net.h"
#include "trainers/options/train_options.h"

namespace terngrad {

NetSpec net_spec_of(const TrainOptions& o) {
  return net_spec(o.net, {.dropout_keep_prob = static_cast<float>(o.dropout_keep_prob)});
}

std::unique_ptr<Net> make_host_net(const TrainOptions& o, const Dataset& dataset, const WorkerGroup& workers,
                                   const TrainDevices& devices, std::vector<std::string>& notes) {
  NetOptions options;
  // A server computes no gradients, but may evaluate.
  options.num_local_workers = std::max(workers.num_local_workers, 1);
  options.examples_per_worker = workers.is_server() ? 1 : static_cast<int>(o.batch_size / o.num_nodes);
  options.threads_per_worker = threads_per_worker(o);
  options.num_threads = num_threads(o);
  options.first_local_worker = workers.first_local_worker;
  options.seed = o.seed;
  const ImageShape shape{dataset.height(), dataset.width(), dataset.channels()};
  try {
    const NetSpec spec = net_spec_of(o);
    if (devices.is_cpu()) return make_net(spec, shape, dataset.num_classes(), options);
    auto net = std::make_unique<OffloadedNet>(spec, shape, dataset.num_classes(), options, devices.math, devices.gpus);
    std::ranges::copy(net->notes(), std::back_inserter(notes));
    return net;
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace terngrad
