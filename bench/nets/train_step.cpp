#include "bench/nets/train_step.h"

#include <utility>
#include <vector>

#include "bench/nets/train_step_subject.h"
#include "compress/comm/communicator.h"
#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "datasets/device_examples.h"
#include "nets/device_net.h"
#include "trainers/loop/device_replica.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/optimizer.h"

namespace terngrad::bench {

std::unique_ptr<DeviceReplica> make_train_step(const TrainStepSubject& subject, int max_burst) {
  const Stream stream(Device::cuda());
  const std::shared_ptr<const Dataset> dataset = make_dataset_of(subject);
  const TrainStepRecipe recipe = recipe_of(subject);
  DeviceReplicaParts parts;
  parts.num_workers = subject.num_workers;
  parts.net = make_net_of(subject, *dataset, stream);
  parts.examples = make_examples_of(subject, dataset, max_burst, stream);
  const Layout& layout = parts.net->layout();
  parts.exchanges.push_back(
      std::make_unique<CompressedAllReduce>(layout, ExchangePeers{workers_of(subject), make_self_device_communicator()},
                                            exchange_options_of(subject), stream));
  parts.optimizer = make_optimizer(recipe.optimizer, {}, layout.flat_elements(), stream.device());
  parts.transforms.push_back(make_weight_decay(*parts.net, recipe.weight_decay, stream.device()));
  std::vector<float> parameters(static_cast<std::size_t>(layout.flat_elements()));
  parts.net->initialize(1, parameters);
  std::vector<Optimizer::Slot> slots = parts.optimizer->slots();
  std::vector<std::vector<float>> zeros;
  for (Optimizer::Slot& slot : slots) {
    zeros.emplace_back(slot.values.size());
    slot.values = zeros.back();
  }
  auto replica = std::make_unique<DeviceReplica>(std::move(parts), max_burst);
  std::vector<float> average = parameters;
  replica->load({.parameters = parameters, .ema = average, .state_ema = {}, .states = {}, .slots = slots});
  return replica;
}

}  // namespace terngrad::bench
