#include "trainers/run/strategy_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/loop/message_dump.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/net_factory.h"

namespace terngrad::strategy_factory_test {
namespace {

using ::testing::HasSubstr;

TrainOptions options_with(int num_nodes, int grad_bits) {
  TrainOptions o;
  o.benchmark_mode = true;
  o.image_size = 8;
  o.batch_size = 8;
  o.num_nodes = num_nodes;
  o.grad_bits = grad_bits;
  o.threads = 1;
  return o;
}

/// Strategy of a single process.
struct Alone {
  explicit Alone(const TrainOptions& options) : o(options) {
    net = make_host_net(o, *open_dataset(o, Subset::kTrain), workers, TrainDevices{}, notes);
  }
  HostStrategy strategy(const HostStrategyContext& context = {}) const {
    return make_host_strategy(o, *net, workers, context);
  }

  TrainOptions o;
  WorkerGroup workers = make_worker_group(o.num_nodes, make_self_communicator());
  std::vector<std::string> notes;
  std::unique_ptr<Net> net;
};

TEST(MakeHostStrategy, DependsOnWorkersAndExchange) {
  const HostStrategy simple = Alone(options_with(1, 32)).strategy();
  EXPECT_EQ(simple.strategy->name(), "simple");
  const Alone ternary(options_with(2, 1));
  EXPECT_EQ(ternary.strategy().strategy->name(), "replicated");
  // Peers must agree on the codecs, or without codecs on the tensors.
  EXPECT_NE(ternary.strategy().plan_fingerprint, simple.plan_fingerprint);
  EXPECT_EQ(simple.plan_fingerprint, ternary.net->layout().fingerprint());
}

TEST(MakeHostStrategy, RefusesToDumpWhatHasNoMessages) {
  const testing::TemporaryDirectory folder;
  const Alone four(options_with(4, 1));
  const auto dump = std::make_shared<MessageDump>(folder.path() / "messages", 0, 4, 1);
  EXPECT_THAT(testing::message_of<UsageError>([&] { four.strategy({.dump = dump}); }),
              HasSubstr("--dump_messages: --exchange auto is integer_sum here"));
}

TEST(MakeServedParameters, AreThereWhereServersUpdate) {
  TrainOptions o = options_with(2, 1);
  EXPECT_EQ(make_served_parameters(o, *Alone(o).net, Alone(o).workers, {}), nullptr);
  o.strategy = TrainStrategy::kParameterServers;
  o.pull = Pull::kParameters;
  const Alone served(o);
  EXPECT_NE(make_served_parameters(o, *served.net, served.workers, {}), nullptr);
}

}  // namespace
}  // namespace terngrad::strategy_factory_test
