#include "trainers/run/exchange_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/loop/host_trainer.h"
#include "trainers/loop/message_dump.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/net_factory.h"

namespace terngrad::exchange_factory_test {
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

/// A net of a single process, and its exchanges.
struct Alone {
  explicit Alone(const TrainOptions& options) : o(options) {
    parts.workers = make_worker_group(o.num_nodes, make_self_communicator());
    parts.net = make_host_net(o, *open_dataset(o, Subset::kTrain), parts.workers, TrainDevices{}, notes);
  }
  std::uint64_t add_exchanges(const HostExchangeContext& context = {}) { return add_host_exchanges(o, context, parts); }

  TrainOptions o;
  std::vector<std::string> notes;
  TrainerParts parts;
};

TEST(AddHostExchanges, DependOnWorkersCodecsAndMemory) {
  Alone simple(options_with(1, 32));
  // Peers must agree on the codecs, or without codecs on the tensors.
  EXPECT_EQ(simple.add_exchanges(), simple.parts.net->layout().fingerprint());
  ASSERT_EQ(simple.parts.exchanges.size(), 1u);
  EXPECT_EQ(simple.parts.exchanges[0]->plan().codec_of(0).name(), "fp32");
  TrainOptions o = options_with(2, 1);
  Alone ternary(o);
  const std::uint64_t fingerprint = ternary.add_exchanges();
  EXPECT_NE(fingerprint, ternary.parts.net->layout().fingerprint());
  EXPECT_EQ(ternary.parts.exchanges.at(0)->memory(), nullptr);
  o.codec_memory = "ef";
  o.compress_from = 3;
  Alone kept(o);
  EXPECT_EQ(kept.add_exchanges(), fingerprint);
  ASSERT_EQ(kept.parts.exchanges.size(), 2u);
  EXPECT_NE(kept.parts.exchanges[0]->memory(), nullptr);
  EXPECT_EQ(kept.parts.exchanges[1]->memory(), nullptr);
  EXPECT_EQ(kept.parts.exchanges[1]->plan().codec_of(0).name(), "fp32");
  EXPECT_EQ(kept.parts.exchange_of(2), 1u);
  EXPECT_EQ(kept.parts.exchange_of(3), 0u);
}

// fp32 steps between compressed ones have no codes that could return.
TEST(AddHostExchanges, FloatingStepsGoWithEveryDownlink) {
  for (const Choice<DownlinkCodec>& downlink : choices_of<DownlinkCodec>()) {
    TrainOptions o = options_with(2, 1);
    if (downlink.value == DownlinkCodec::kSparse) o.codec = "topk";
    o.compress_from = 3;
    o.downlink_codec = downlink.value;
    Alone floating(o);
    EXPECT_NO_THROW(floating.add_exchanges()) << downlink.word;
    EXPECT_EQ(floating.parts.exchanges.size(), 2u) << downlink.word;
  }
}

TEST(AddHostExchanges, RefuseToDumpWhatHasNoMessages) {
  const testing::TemporaryDirectory folder;
  Alone four(options_with(4, 1));
  const auto dump = std::make_shared<MessageDump>(folder.path() / "messages", 0, 4, 1);
  EXPECT_THAT(testing::message_of<UsageError>([&] { four.add_exchanges({.dump = dump}); }),
              HasSubstr("--dump_messages: --exchange auto is integer_sum here"));
}

TEST(MakeServedParameters, AreThereWhereServersUpdate) {
  TrainOptions o = options_with(2, 1);
  const Alone replicated(o);
  EXPECT_EQ(make_served_parameters(o, *replicated.parts.net, replicated.parts.workers, {}), nullptr);
  o.strategy = TrainStrategy::kParameterServers;
  o.pull = Pull::kParameters;
  const Alone served(o);
  EXPECT_NE(make_served_parameters(o, *served.parts.net, served.parts.workers, {}), nullptr);
}

}  // namespace
}  // namespace terngrad::exchange_factory_test
