#include "trainers/async/async_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"

namespace terngrad::async_server_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A server with one tensor "w" of two elements and gradient descent, and the messages of its workers.
class Served {
 public:
  explicit Served(AsyncServerOptions options = {.num_workers = 2, .scale = 0.5f, .max_staleness = {}})
      : layout_(make_layout()),
        protocol_(std::make_shared<const PushProtocol>(layout_, Layout(), CodecPlan(layout_, fp32()),
                                                       FloatCodec::Width::kFloat32, 5, "")),
        messages_(*protocol_),
        parameters_(zeros<float>(layout_.flat_elements())),
        optimizer_(make_optimizer("gd", {}, layout_.flat_elements())),
        server(protocol_, options, parameters_.span(), *optimizer_) {}

  /// @returns the version that the worker pulled
  std::uint64_t pull(int worker) {
    Parcels answer;
    server.answer_pull(worker, {}, answer);
    return read(answer, 1, worker);
  }
  PushResult push(int worker, std::uint64_t number, PushMetadata note, float a, float b, double rate = 1) {
    return server.take_push(message(worker, number, note, a, b), 9, rate, {});
  }
  std::uint64_t answer(int worker) {
    Parcels answer;
    server.answer_push(worker, answer);
    return read(answer, 0, worker);
  }
  Parcels message(int worker, std::uint64_t number, const PushMetadata& note, float a, float b) {
    Parcels parcels;
    messages_.add_metadata(number, worker, note, parcels);
    Buffer<float> gradient = zeros<float>(layout_.flat_elements());
    gradient.data()[0] = a;
    gradient.data()[1] = b;
    WorkerEncoder encoder(protocol_->layout, protocol_->plan, worker, worker + 1, 1);
    const TensorTable table(layout_, gradient.data());
    Stream stream(Device::cpu(), 1);
    encoder.measure(table, number, stream);
    parcels.append(encoder.gradient_message(table, protocol_->at(number), stream));
    return parcels;
  }
  std::vector<float> parameters() const { return {parameters_.span()[0], parameters_.span()[1]}; }
  std::vector<float> seen() const { return {seen_[0], seen_[1]}; }

 private:
  static Layout make_layout() {
    Layout layout;
    layout.add("w", {2});
    return layout;
  }
  static CodecPlanOptions fp32() {
    CodecPlanOptions options;
    options.codec = "fp32";
    return options;
  }
  std::uint64_t read(const Parcels& answer, std::size_t index, int worker) {
    seen_.resize(static_cast<std::size_t>(layout_.flat_elements()));
    return messages_.read_parameters(answer, index, worker, seen_);
  }

  Layout layout_;
  std::shared_ptr<const PushProtocol> protocol_;
  PushMessages messages_;
  Buffer<float> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> seen_;  // parameters that the last answered worker received

 public:
  AsyncServer server;
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(AsyncServer, AppliesEveryPushScaledAndAnswersWithTheNewParameters) {
  Served s;
  EXPECT_EQ(s.pull(0), 0u);
  EXPECT_EQ(s.pull(1), 0u);
  PushResult result = s.push(0, 0, {.version = 0, .loss = 3}, 8, -4, 0.25);
  EXPECT_EQ(result.staleness, 0u);
  EXPECT_EQ(result.worker, 0);
  EXPECT_EQ(result.note.loss, 3);
  EXPECT_THAT(s.parameters(), ElementsAre(-1, 0.5f));  // -0.25 * 0.5 * gradient
  EXPECT_EQ(s.answer(0), 1u);
  EXPECT_THAT(s.seen(), ElementsAre(-1, 0.5f));
  result = s.push(1, 0, {.version = 0}, 2, 2);
  EXPECT_EQ(result.staleness, 1u);
  EXPECT_THAT(s.parameters(), ElementsAre(-2, -0.5f));
  EXPECT_EQ(s.answer(1), 2u);
  EXPECT_EQ(s.server.version(), 2u);
  EXPECT_EQ(s.server.num_pushes(0), 1u);
}

TEST(AsyncServer, DropsAndCountsWhatIsStalerThanAllowed) {
  Served s({.num_workers = 2, .scale = 1, .max_staleness = 1});
  s.pull(0);
  s.pull(1);
  for (std::uint64_t push = 0; push < 2; ++push) {
    s.push(0, push, {.version = push}, 1, 1);
    s.answer(0);
  }
  const PushResult result = s.push(1, 0, {.version = 0}, 100, 100);
  EXPECT_TRUE(result.is_dropped);
  EXPECT_EQ(result.staleness, 2u);
  EXPECT_THAT(s.parameters(), ElementsAre(-2, -2));
  EXPECT_EQ(s.server.version(), 2u);
  EXPECT_EQ(s.server.num_pushes(1), 1u);
  EXPECT_EQ(s.answer(1), 2u);  // pulls from scratch
  EXPECT_FALSE(s.push(1, 1, {.version = 2}, 1, 1).is_dropped);
}

TEST(AsyncServer, DoesWhatItIsToldAboutNaN) {
  const PushMetadata nan{.version = 0, .nonfinite_tensors = 1, .first_nonfinite = 0};
  Served stops({.num_workers = 1, .max_staleness = {}, .on_nonfinite = OnNonfinite::kStop});
  stops.pull(0);
  try {
    stops.push(0, 0, nan, 0, 0);
    ADD_FAILURE() << "continued";
  } catch (const NonFiniteError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step 9"), HasSubstr("tensor 'w' of worker 0")));
  }
  Served skips({.num_workers = 1, .max_staleness = {}, .on_nonfinite = OnNonfinite::kSkip});
  skips.pull(0);
  const PushResult skipped = skips.push(0, 0, nan, 1, 1);
  EXPECT_TRUE(skipped.is_skipped);
  EXPECT_THAT(skipped.nonfinite, HasSubstr("'w' of worker 0"));
  EXPECT_EQ(skips.server.version(), 0u);
  EXPECT_THAT(skips.parameters(), ElementsAre(0, 0));
  Served zeroes({.num_workers = 1, .max_staleness = {}, .on_nonfinite = OnNonfinite::kZero});
  zeroes.pull(0);
  const PushResult zeroed = zeroes.push(0, 0, nan, 0, 0);
  EXPECT_FALSE(zeroed.is_skipped);
  EXPECT_THAT(zeroed.nonfinite, HasSubstr("'w' of worker 0"));
  EXPECT_EQ(zeroes.server.version(), 1u);
}

TEST(AsyncServer, WhatTheScaleMakesInfiniteCountsAsNotFinite) {
  Served s({.num_workers = 1, .scale = 1e38f, .max_staleness = {}, .on_nonfinite = OnNonfinite::kZero});
  s.pull(0);
  EXPECT_THAT(s.push(0, 0, {.version = 0}, 1, 100).nonfinite, HasSubstr("'w' of worker 0"));
  EXPECT_THAT(s.parameters(), ElementsAre(0, 0));
}

TEST(AsyncServer, RefusesPushesOutOfOrder) {
  Served s;
  EXPECT_THAT(refusal([&] { s.push(0, 0, {.version = 0}, 1, 1); }), HasSubstr("a pull first"));
  s.pull(0);
  EXPECT_THAT(refusal([&] { s.push(0, 1, {.version = 0}, 1, 1); }), HasSubstr("step is 1, expected 0"));
  EXPECT_THAT(refusal([&] { s.push(0, 0, {.version = 1}, 1, 1); }), HasSubstr("for version 1, expected 0"));
  EXPECT_THAT(refusal([&] { s.push(2, 0, {.version = 0}, 1, 1); }), HasSubstr("worker 2 came, there are 2"));
  EXPECT_THAT(s.parameters(), ElementsAre(0, 0));
  s.push(0, 0, {.version = 0}, 1, 1);
  EXPECT_THAT(refusal([&] { s.push(0, 0, {.version = 0}, 1, 1); }), HasSubstr("step is 0, expected 1"));
}

TEST(AsyncServer, ContinuesFromItsState) {
  Served s;
  s.pull(0);
  s.push(0, 0, {.version = 0}, 1, 1);
  const auto state = s.server.state();
  EXPECT_EQ(state.at("async_pushes"), "1 0");
  EXPECT_EQ(state.at("async_updates"), "1");
  Served other;
  other.server.restore_state(state);
  EXPECT_EQ(other.server.num_pushes(0), 1u);
  EXPECT_EQ(other.pull(1), 1u);
  EXPECT_THAT(refusal([&] { other.push(0, 1, {.version = 1}, 1, 1); }), HasSubstr("a pull first"));
  EXPECT_EQ(other.pull(0), 1u);
  other.server.set_pulled(0, 0);
  EXPECT_EQ(other.push(0, 1, {.version = 0}, 1, 1).staleness, 1u);
  EXPECT_THROW(other.server.set_pulled(0, 3), InvalidArgument);
  for (const char* bad : {"", "1", "1 0 2", "1 x", "-1 0", "1 0 "}) {
    auto entries = state;
    entries["async_pushes"] = bad;
    EXPECT_THROW(other.server.restore_state(entries), DataError) << bad;
  }
  EXPECT_THROW(other.server.restore_state({}), DataError);
}

}  // namespace
}  // namespace terngrad::async_server_test
