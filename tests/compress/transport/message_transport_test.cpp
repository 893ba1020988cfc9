// Damaged messages, and messages of peers with another configuration.
#include "compress/transport/message_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::message_transport_test {
namespace {

using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_of;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

TEST(MessageTransport, OneFlippedByteFailsTheStep) {
  Layout layout;
  layout.add("a", {50});
  layout.add("plain", {3});
  const auto workers = worker_gradients(layout, 2);
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    auto options = options_of(algorithm);
    options.codecs.rules = {{"plain", "fp32"}};
    std::size_t at = std::numeric_limits<std::size_t>::max();
    std::size_t longest = 0;
    CompressedAllReduce exchange = local_exchange(layout, 2, options, [&](int worker, std::span<std::uint8_t> message) {
      longest = std::max(longest, message.size());
      if (worker == 1 && at < message.size()) message[at] ^= 0x10;
    });
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, 0, 2), mean.table, 0);  // undamaged, to measure the longest message
    for (at = 0; at < longest; ++at) {
      ASSERT_THROW(exchange.exchange(tables(workers, 0, 2), mean.table, at), CommunicationError)
          << word_of(algorithm) << ", byte " << at;
    }
    EXPECT_NO_THROW(exchange.exchange(tables(workers, 0, 2), mean.table, 1000));
  }
}

TEST(MessageTransport, DamageInOneProcessFailsTheStep) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 4);
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    const auto errors = testing::run_ranks(2, [&](std::shared_ptr<Communicator> communicator) {
      const bool damages = communicator->rank() == 1;
      const WorkerGroup group = make_worker_group(4, std::move(communicator));
      MessageFilter filter;
      if (damages) filter = [](int, std::span<std::uint8_t> message) { message.back() ^= 1; };
      CompressedAllReduce exchange(layout, {group, filter}, options_of(algorithm));
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, group.first_local_worker, 2), mean.table, 0);
    });
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_THROW(std::rethrow_exception(error), CommunicationError);
    }
  }
}

TEST(MessageTransport, RefusesPeersOfAnotherRunLayoutOrCodec) {
  const Layout layout = mixed_layout();
  Layout renamed = mixed_layout();
  renamed.add("more", {0});
  const auto workers = worker_gradients(layout, 2);
  const auto more_workers = worker_gradients(renamed, 2);
  const std::pair<const char*, int> cases[] = {{"run id", 0}, {"fingerprint", 1}, {"fingerprint", 2}, {"step", 3}};
  for (const auto& [field, which] : cases) {
    const auto errors = testing::run_ranks(2, [&, w = which](std::shared_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      const bool odd = rank == 1;
      auto options = options_of(ExchangeAlgorithm::kAllGather);
      if (odd && w == 0) options.run_id = 100;
      if (odd && w == 2) options.codecs.codec = "ternary:clip_factor=2.5";
      const Layout& mine = odd && w == 1 ? renamed : layout;
      CompressedAllReduce exchange(mine, make_worker_group(2, std::move(communicator)), options);
      Tensors mean = blank_tensors(mine);
      exchange.exchange(tables(odd && w == 1 ? more_workers : workers, rank, 1), mean.table, odd && w == 3 ? 8 : 7);
    });
    for (const auto& error : errors) {
      try {
        ASSERT_TRUE(error) << field;
        std::rethrow_exception(error);
      } catch (const CommunicationError& refused) {
        EXPECT_THAT(refused.what(), HasSubstr(field));
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::message_transport_test
