#include "trainers/async/async_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/trainers/small_async.h"
#include "trainers/async/async_server.h"

namespace terngrad::async_worker_test {
namespace {

using testing::bits_of;
using testing::make_small_protocol;
using testing::make_small_worker;
using testing::SmallAsync;

SmallAsync three_workers() {
  return {.run = {.num_workers = 3, .codec = "ternary", .batch_size = 6, .net = test::branched_net(0.6f)}};
}

/// A worker, and the server's answers to it.
struct Pair {
  explicit Pair(const SmallAsync& async, int number)
      : worker(make_small_worker(async, number)),
        net(testing::make_small_net(async.run, number)),
        protocol(make_small_protocol(async, *net)),
        messages(*protocol),
        parameters(zeros<float>(net->layout().flat_elements())),
        state(zeros<float>(net->state_layout().flat_elements())),
        stream(Device::cpu(), 1) {
    net->initialize(1, parameters.span());
    net->initialize_state(state.span());
  }
  void begin(std::uint64_t push) {
    Parcels answer;
    messages.add_bare(MessageKind::kPull, push, worker->number(), answer);
    messages.add_parameters(0, worker->number(), parameters.span(), answer, stream);
    messages.add_state(push, worker->number(), state.span(), answer, stream);
    EXPECT_FALSE(worker->begin(answer));
  }
  Parcels push() {
    Parcels parcels;
    worker->fetch();
    worker->compute(stream);
    worker->write_push(false, parcels, stream);
    return parcels;
  }
  void answer(std::uint64_t version) {
    Parcels answer;
    messages.add_parameters(version, worker->number(), parameters.span(), answer, stream);
    EXPECT_FALSE(worker->take(answer));
  }

  std::unique_ptr<AsyncWorker> worker;
  std::unique_ptr<Net> net;
  std::shared_ptr<const PushProtocol> protocol;
  PushMessages messages;
  Buffer<float> parameters;
  Buffer<float> state;
  Stream stream;
};

std::vector<std::uint8_t> content(const Parcels& parcels) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < parcels.count(); ++i)
    bytes.insert(bytes.end(), parcels.parcel(i).begin(), parcels.parcel(i).end());
  return bytes;
}

TEST(AsyncWorker, PushesNoteGradientAndState) {
  Pair p(three_workers(), 2);
  p.begin(0);
  const Parcels push = p.push();
  ASSERT_EQ(push.count(), 3u);
  const PushMetadata note = p.messages.read_metadata(push, 0, 0, 2);
  EXPECT_GT(note.loss, 0);
  EXPECT_EQ(note.nonfinite_tensors, 0u);
  EXPECT_FALSE(note.asks_to_stop);
  Buffer<float> gradient = zeros<float>(p.parameters.num_elements());
  p.messages.read_gradient(push, 1, 0, 2, gradient.span());
  Buffer<float> state = zeros<float>(p.state.num_elements());
  p.messages.read_state(push, 2, 0, 2, state.span());
  EXPECT_NE(bits_of(state.span()), bits_of(p.state.span()));
  for (int segment = 0; segment < p.net->layout().num_segments(); ++segment) {
    const Segment& tensor = p.net->layout().segment(segment);
    std::vector<float> sent(static_cast<std::size_t>(tensor.num_elements));
    EXPECT_GE(p.worker->decode_sent(segment, sent), 0);
    EXPECT_EQ(bits_of(sent), bits_of(gradient.span().subspan(static_cast<std::size_t>(tensor.offset), sent.size())));
    EXPECT_EQ(p.worker->gradient(segment).size(), sent.size());
  }
}

TEST(AsyncWorker, WhatItPushesDependsOnItsCounterAndParametersAlone) {
  Pair first(three_workers(), 1);
  first.begin(0);
  first.push();
  first.answer(5);
  const std::vector<std::uint8_t> second_push = content(first.push());
  // The second push starts with the state that the first one left.
  Pair again(three_workers(), 1);
  again.begin(0);
  const Parcels push = again.push();
  again.messages.read_state(push, 2, 0, 1, again.state.span());
  Pair later(three_workers(), 1);
  std::ranges::copy(again.state.span(), later.state.span().begin());
  later.begin(1);
  later.worker->set_pulled(5, later.parameters.span());
  EXPECT_EQ(content(later.push()), second_push);
  // Another counter gives another batch and other draws.
  Pair other(three_workers(), 1);
  other.begin(2);
  EXPECT_NE(content(other.push()), content(push));
}

TEST(AsyncWorker, StopsWhereItIsTold) {
  Pair p(three_workers(), 0);
  Parcels stop;
  p.messages.add_bare(MessageKind::kStop, 17, 0, stop);
  EXPECT_EQ(p.worker->begin(stop), 17u);
  EXPECT_EQ(p.worker->take(stop), 17u);
}

TEST(AsyncWorker, AsksToStopInItsNote) {
  Pair p(three_workers(), 0);
  p.begin(0);
  p.worker->fetch();
  p.worker->compute(p.stream);
  Parcels push;
  p.worker->write_push(true, push, p.stream);
  EXPECT_TRUE(p.messages.read_metadata(push, 0, 0, 0).asks_to_stop);
}

TEST(AsyncWorker, RefusesAnswersToOthers) {
  Pair p(three_workers(), 0);
  Parcels answer;
  p.messages.add_bare(MessageKind::kPull, 0, 1, answer);
  EXPECT_THROW(p.worker->begin(answer), CommunicationError);
  EXPECT_THROW(p.worker->fetch(), InvalidArgument);
  std::vector<float> out(1);
  EXPECT_THROW(p.worker->decode_sent(0, out), InvalidArgument);
  p.begin(0);
  Parcels others;
  p.messages.add_parameters(1, 1, p.parameters.span(), others, p.stream);
  EXPECT_THROW(p.worker->take(others), CommunicationError);
  EXPECT_THROW(p.worker->set_pulled(0, p.parameters.span().first(3)), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::async_worker_test
