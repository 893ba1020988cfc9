#include "trainers/run/net_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/dataset.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"

namespace terngrad::net_factory_test {
namespace {

using ::testing::HasSubstr;

TrainOptions options_with(int num_nodes) {
  TrainOptions o;
  o.benchmark_mode = true;
  o.image_size = 8;
  o.batch_size = 12;
  o.num_nodes = num_nodes;
  o.threads = 1;
  return o;
}

std::unique_ptr<Net> net_of(const TrainOptions& o, std::vector<std::string>& notes) {
  const WorkerGroup workers = make_worker_group(o.num_nodes, make_self_communicator());
  return make_host_net(o, *open_dataset(o, Subset::kTrain), workers, TrainDevices{}, notes);
}

TEST(MakeHostNet, IsTheNetOfTheOptionsOnTheCpu) {
  std::vector<std::string> notes;
  const auto net = net_of(options_with(3), notes);
  EXPECT_EQ(net->name(), "lenet");
  EXPECT_EQ(net->device(), Device::cpu());
  EXPECT_TRUE(notes.empty());
}

TEST(MakeHostNet, WithoutSuchANetIsAUsageError) {
  TrainOptions o = options_with(1);
  o.net = "none";
  std::vector<std::string> notes;
  EXPECT_THAT(testing::message_of<UsageError>([&] { net_of(o, notes); }), HasSubstr("none"));
}

}  // namespace
}  // namespace terngrad::net_factory_test
