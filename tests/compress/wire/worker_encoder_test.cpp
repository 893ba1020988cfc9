#include "compress/wire/worker_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "compress/wire/gradient_message.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::worker_encoder_test {
namespace {

using testing::bits_of;
using ::testing::Each;
using testing::gaussian_tensors;
using testing::Tensors;

const MessageContext kContext{1, 2, 3};
constexpr int kWorker = 1;
constexpr int kWorkers = 3;
constexpr std::uint64_t kSeed = 17;

struct Encoded {
  Layout layout;
  CodecPlan plan;
  Tensors gradient;
  WorkerEncoder encoder;
  Message message;
  Stream stream{Device::cpu(), 2};

  explicit Encoded(const std::string& codec, float last = 1)
      : layout(make_layout()),
        plan(layout, {.codec = codec, .rules = {{"plain", "fp32"}}, .context = {kWorkers}}),
        gradient(gaussian_tensors(layout, 4)),
        encoder(layout, plan, kWorker, kWorkers, kSeed) {
    gradient.values[2].back() = last;
    encoder.measure(gradient.table, kContext.step, stream);
    read_message(encoder.gradient_message(gradient.table, kContext, stream), MessageKind::kGradient, kContext, layout,
                 message);
  }
  std::vector<float> decoded(int segment) const {
    const EncodedSlice& encoded = message.records[static_cast<std::size_t>(segment)].encoded;
    std::vector<float> values(static_cast<std::size_t>(encoded.slice.count));
    plan.codec_of(segment).check(encoded);
    plan.codec_of(segment).decode(encoded, values);
    return values;
  }
  static Layout make_layout() {
    Layout layout;
    layout.add("plain", {33});
    layout.add("empty", {0});
    layout.add("fc", {9000});
    return layout;
  }
};

TEST(WorkerEncoder, SendsEveryTensorWithTheWorkersOwnScalers) {
  for (const char* codec : {"ternary:sharing=none", "ternary:sharing=none,scope=block,block=4096", "qsgd", "fp8"}) {
    const Encoded sent(codec);
    EXPECT_EQ(sent.message.worker, kWorker);
    ASSERT_EQ(sent.message.records.size(), 3u);
    EXPECT_EQ(bits_of(sent.decoded(0)), bits_of(sent.gradient.values[0])) << codec;
    EXPECT_FALSE(sent.encoder.is_nonfinite(0) || sent.encoder.is_nonfinite(1) || sent.encoder.is_nonfinite(2));
    // The largest element always has the largest code.
    const auto magnitude = [](float v) { return std::fabs(v); };
    const float most = std::ranges::max(sent.gradient.values[2], {}, magnitude);
    const float found = std::ranges::max(sent.decoded(2), {}, magnitude);
    EXPECT_NEAR(std::fabs(found), std::fabs(most), 1e-6 * std::fabs(most)) << codec;
  }
}

TEST(WorkerEncoder, SendsATensorThatIsNotFiniteAsZeros) {
  for (const char* codec : {"ternary:sharing=none", "ternary:sharing=none,scope=block,block=4096", "qsgd", "fp8"}) {
    const Encoded sent(codec, std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(sent.encoder.is_nonfinite(2)) << codec;
    EXPECT_FALSE(sent.encoder.is_nonfinite(0));
    EXPECT_THAT(bits_of(sent.decoded(2)), Each(0u)) << codec;
    EXPECT_EQ(bits_of(sent.decoded(0)), bits_of(sent.gradient.values[0]));
  }
}

// With the scalers of all workers, WorkerEncoder sends the same messages as an exchange.
TEST(WorkerEncoder, WithTheScalersOfAllWorkersSendsWhatAnExchangeDoes) {
  const Layout layout = testing::mixed_layout();
  const std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
  Stream stream;
  for (const char* codec : {"ternary:clip_factor=2.5", "ternary:sharing=mean,scope=block,block=1344",
                            "qsgd:bits=4,sharing=max", "sign:reduce=vote,scale=l1", "natural"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
    options.codecs.codec = codec;
    CompressedAllReduce exchange = testing::local_exchange(layout, kWorkers, options);
    const Tensors mean = testing::blank_tensors(layout);
    exchange.exchange(testing::tables(gradients, 0, kWorkers), mean.table, kContext.step);
    const CodecPlan& plan = exchange.plan();
    std::vector<WorkerEncoder> encoders;
    std::vector<std::vector<float>> scalers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      WorkerEncoder& encoder = encoders.emplace_back(layout, plan, worker, kWorkers, options.seed);
      encoder.measure(gradients[static_cast<std::size_t>(worker)].table, kContext.step, stream);
      encoder.copy_scalers(scalers.emplace_back(static_cast<std::size_t>(plan.num_scalers())));
    }
    for (int worker = 0; worker < kWorkers; ++worker) {
      WorkerEncoder& encoder = encoders[static_cast<std::size_t>(worker)];
      for (int other = 0; other < kWorkers; ++other) {
        if (other != worker) encoder.set_scalers(other, scalers[static_cast<std::size_t>(other)]);
      }
      const Tensors& gradient = gradients[static_cast<std::size_t>(worker)];
      Message message;
      read_gradient_message(encoder.gradient_message(gradient.table, kContext, stream), layout, plan, kContext,
                            message);
      EXPECT_EQ(message.worker, worker);
      const Tensors decoded = testing::blank_tensors(layout);
      decode_gradient(message, plan, decoded.table);
      std::vector<std::vector<float>> sent;
      for (int segment = 0; segment < layout.num_segments(); ++segment) {
        sent.emplace_back(static_cast<std::size_t>(layout.segment(segment).num_elements));
        exchange.decode_local(worker, segment, sent.back());
      }
      EXPECT_TRUE(testing::same_bits(sent, decoded)) << codec << ", worker " << worker;
    }
    std::vector<float> row(static_cast<std::size_t>(plan.num_scalers()));
    EXPECT_THROW(encoders[0].set_scalers(0, row), InvalidArgument);
    EXPECT_THROW(encoders[0].set_scalers(kWorkers, row), InvalidArgument);
    row.pop_back();
    EXPECT_THROW(encoders[0].set_scalers(1, row), InvalidArgument);
    EXPECT_THROW(encoders[0].copy_scalers(row), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::worker_encoder_test
