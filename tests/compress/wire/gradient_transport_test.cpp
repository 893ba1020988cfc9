// Sums over subtrees in place of workers' slices: which travel, what they say, and what is refused. That means keep
// their bits is tested with the exchanges, compressed_all_reduce_test.cpp.
#include "compress/wire/gradient_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/metered_communicator.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::gradient_transport_test {
namespace {

using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::options_of;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr MessageContext kContext{.run_id = 1, .fingerprint = 2, .step = 3};

Layout two_tensors() {
  Layout layout;
  layout.add("a", {5000});
  layout.add("b", {33});
  return layout;
}

CodecPlan plan_of(const Layout& layout, const std::string& codec, int num_workers, const std::string& of_b = "fp32") {
  CodecPlanOptions options;
  options.codec = codec;
  options.rules = {{"b", of_b}};
  options.codec_options.num_workers = num_workers;
  return {layout, options};
}

std::vector<WorkerRange> ranks_of(int num_workers, int num_processes) {
  std::vector<WorkerRange> ranks;
  for (int rank = 0; rank < num_processes; ++rank) ranks.push_back(worker_range(num_workers, rank, num_processes));
  return ranks;
}

bool adds_any(const std::string& codec, int num_workers, int num_processes) {
  const Layout layout = two_tensors();
  const CodecPlan plan = plan_of(layout, codec, num_workers, codec);
  return GradientTransport(layout, plan, ranks_of(num_workers, num_processes), 0).adds_any();
}

TEST(GradientTransport, AddWhereThatTakesFewerBits) {
  EXPECT_FALSE(adds_any("fp32", 8, 1));  // nothing travels
  EXPECT_TRUE(adds_any("fp32", 8, 2));
  EXPECT_TRUE(adds_any("fp32", 8, 4));
  EXPECT_FALSE(adds_any("fp32", 8, 8));
  EXPECT_TRUE(adds_any("fp32", 6, 4));   // one of four has two that are a subtree
  EXPECT_FALSE(adds_any("fp32", 3, 2));  // workers 1 and 2 of three are no subtree
  EXPECT_TRUE(adds_any("bf16", 8, 2));
  EXPECT_FALSE(adds_any("bf16", 8, 4));  // a sum of two takes as many bits as they do
  EXPECT_FALSE(adds_any("bf16", 6, 2));  // 2 + 1 and 1 + 2: four sums of 32 bits, six times 16
  EXPECT_FALSE(adds_any("ternary", 8, 2));
}

/// Processes that append their messages, and one that reads them.
class Travelling : public ::testing::Test {
 protected:
  void encode(const std::string& codec) {
    plan_ = std::make_unique<CodecPlan>(plan_of(layout_, codec, kWorkers));
    shared_.assign(static_cast<std::size_t>(plan_->num_scalers()), 1.0f);
    writers_.clear();
    writers_.resize(kWorkers);
    messages_.clear();
    for (int worker = 0; worker < kWorkers; ++worker) {
      const auto w = static_cast<std::size_t>(worker);
      WorkerEncoder encoder(layout_, *plan_, worker);
      encoder.measure(gradients_[w].table, 1, kContext.step, stream_);
      const WorkerEncoder::GradientPart part{parts_[0], shared_};
      messages_.push_back(encoder.gradient_message(gradients_[w].table, part, kContext, writers_[w], stream_));
    }
  }
  GradientTransport of_rank(int rank) const { return {layout_, *plan_, ranks_of(kWorkers, kProcesses), rank}; }
  Parcels all_parcels() {
    Parcels parcels;
    for (int rank = 0; rank < kProcesses; ++rank) {
      const WorkerRange range = worker_range(kWorkers, rank, kProcesses);
      const auto first = static_cast<std::size_t>(range.first_local_worker);
      const std::span own = std::span(messages_).subspan(first, static_cast<std::size_t>(range.num_local_workers));
      of_rank(rank).append(own, parts_[0], kContext, parcels, stream_);
    }
    return parcels;
  }
  /// Reads what has been changed. @returns what it was refused for; "" if it was not
  std::string refusal_of(const Parcels& parcels) {
    GradientTransport reader = of_rank(0);
    try {
      reader.read(parcels, parts_, kContext, stream_);
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "";
  }

  static constexpr int kWorkers = 6;    // subtrees 4 and 2
  static constexpr int kProcesses = 2;  // of three workers: 2 + 1, and 1 + 2
  Layout layout_ = two_tensors();
  Stream stream_{Device::cpu(), 2};
  std::vector<Tensors> gradients_ = worker_gradients(layout_, kWorkers);
  std::vector<std::vector<Slice>> parts_{whole_segments(layout_)};
  std::unique_ptr<CodecPlan> plan_;
  std::vector<float> shared_;
  std::vector<MessageWriter> writers_;
  std::vector<std::span<const std::uint8_t>> messages_;
};

TEST_F(Travelling, FloatsAloneAreSumsAlone) {
  encode("fp32");
  const Parcels parcels = all_parcels();
  ASSERT_EQ(parcels.count(), 4u);  // subtrees
  const std::vector<std::pair<int, int>> subtrees = {{0, 2}, {2, 1}, {3, 1}, {4, 2}};
  for (std::size_t i = 0; i < subtrees.size(); ++i) {
    Message message;
    read_message(parcels.parcel(i), MessageKind::kPartialSum, kContext, layout_, message);
    const auto [first, count] = subtrees[i];
    EXPECT_EQ(message.worker, first);
    ASSERT_EQ(message.records.size(), 2u);
    for (std::size_t t = 0; t < 2; ++t) {
      const EncodedSlice& encoded = message.records[t].encoded;
      EXPECT_TRUE(encoded.scalers.empty());
      EXPECT_EQ(message.records[t].codec, 1);
      std::vector<float> sum = gradients_[static_cast<std::size_t>(first)].values[t];
      if (count == 2) {
        std::ranges::transform(sum, gradients_[static_cast<std::size_t>(first) + 1].values[t], sum.begin(),
                               std::plus{});
      }
      ASSERT_EQ(encoded.payload.size(), 4 * sum.size());
      EXPECT_EQ(std::memcmp(encoded.payload.data(), sum.data(), 4 * sum.size()), 0) << i;
    }
  }
}

TEST_F(Travelling, OtherCodecsStayAsTheyAre) {
  encode("ternary");
  const Parcels parcels = all_parcels();
  ASSERT_EQ(parcels.count(), 10u);  // six workers, four subtrees
  const std::vector<bool> is_sum = {false, false, false, true, true, false, false, false, true, true};
  for (std::size_t i = 0; i < is_sum.size(); ++i) {
    Message message;
    const MessageKind kind = is_sum[i] ? MessageKind::kPartialSum : MessageKind::kGradient;
    read_message(parcels.parcel(i), kind, kContext, layout_, message);
    ASSERT_EQ(message.records.size(), 1u);
    EXPECT_EQ(message.records[0].encoded.slice.segment, is_sum[i] ? 1 : 0);
  }
  GradientTransport reader = of_rank(1);
  reader.read(parcels, parts_, kContext, stream_);
  std::vector<EncodedSlice> slices;
  const GradientTransport::Source codes = reader.append_slice(0, 0, slices);
  EXPECT_EQ(codes.num_messages, 6u);
  EXPECT_TRUE(codes.workers.empty());
  for (std::size_t w = 0; w < 6; ++w) {
    Message whole;
    read_message(messages_[w], MessageKind::kGradient, kContext, layout_, whole);
    EXPECT_TRUE(std::ranges::equal(slices[w].payload, whole.records[0].encoded.payload)) << w;
    EXPECT_TRUE(std::ranges::equal(slices[w].scalers, whole.records[0].encoded.scalers)) << w;
  }
  const GradientTransport::Source sums = reader.append_slice(0, 1, slices);
  EXPECT_EQ(std::vector<int>(sums.workers.begin(), sums.workers.end()), (std::vector<int>{2, 1, 1, 2}));
  EXPECT_EQ(slices.size(), 10u);
}

TEST_F(Travelling, BytesAreThoseOfWholeMessages) {
  for (const char* codec : {"ternary", "fp32"}) {
    encode(codec);
    GradientTransport reader = of_rank(0);
    reader.read(all_parcels(), parts_, kContext, stream_);
    for (std::size_t w = 0; w < 6; ++w) {
      EXPECT_EQ(reader.bytes_of(static_cast<int>(w), 0), static_cast<std::int64_t>(messages_[w].size())) << codec;
    }
  }
}

TEST_F(Travelling, RefusesAnyFlippedByte) {
  encode("ternary");
  Parcels parcels = all_parcels();
  ASSERT_EQ(refusal_of(parcels), "");
  for (const std::size_t i : {0u, 3u, 9u}) {
    const std::span<std::uint8_t> parcel = parcels.parcel(i);
    for (std::size_t at = 0; at < parcel.size(); ++at) {
      parcel[at] ^= 0x20;
      ASSERT_NE(refusal_of(parcels), "") << "parcel " << i << " byte " << at;
      parcel[at] ^= 0x20;
    }
  }
}

TEST_F(Travelling, RefusesWhatIsNotInItsPlace) {
  encode("ternary");
  const Parcels parcels = all_parcels();
  const auto reordered = [&](const std::vector<std::size_t>& order) {
    Parcels result;
    for (const std::size_t i : order) result.append(parcels.parcel(i));
    return refusal_of(result);
  };
  EXPECT_EQ(reordered({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "");
  EXPECT_THAT(reordered({0, 1, 2, 4, 3, 5, 6, 7, 8, 9}), HasSubstr("sum from worker 2"));
  EXPECT_THAT(reordered({1, 0, 2, 3, 4, 5, 6, 7, 8, 9}), HasSubstr("worker 1"));
  EXPECT_THAT(reordered({0, 1, 3, 2, 4, 5, 6, 7, 8, 9}), HasSubstr("kind"));
  EXPECT_THAT(reordered({0, 1, 2, 3, 4, 5, 6, 7, 8}), HasSubstr("9 gradient messages came, expected 10"));
}

TEST_F(Travelling, RefusesASumWithOtherRecords) {
  encode("ternary");
  const Parcels parcels = all_parcels();
  const auto with_sum = [&](const Slice& slice, std::uint8_t codec, std::uint8_t format, std::span<const float> scalers,
                            std::int64_t bytes) {
    Parcels result;
    for (std::size_t i = 0; i < parcels.count(); ++i) {
      if (i != 3) {
        result.append(parcels.parcel(i));
        continue;
      }
      MessageWriter writer;
      writer.begin(MessageKind::kPartialSum, kContext, 0, 1, max_message_bytes(1, 1, bytes));
      std::fill_n(writer.add(slice, codec, format, scalers, bytes), bytes, std::uint8_t{0});
      result.append(writer.finish());
    }
    return refusal_of(result);
  };
  const Slice b{1, 0, 33};
  EXPECT_EQ(with_sum(b, 1, 0, {}, 132), "");
  EXPECT_THAT(with_sum({0, 0, 33}, 1, 0, {}, 132), HasSubstr("tensor 'b'"));
  EXPECT_THAT(with_sum({1, 0, 32}, 1, 0, {}, 128), HasSubstr("tensor 'b'"));
  EXPECT_THAT(with_sum(b, 2, 0, {}, 132), HasSubstr("fp32"));
  EXPECT_THAT(with_sum(b, 1, 1, {}, 132), HasSubstr("fp32"));
  EXPECT_THAT(with_sum(b, 1, 0, {}, 128), HasSubstr("fp32"));
  const float scaler = 0;
  EXPECT_THAT(with_sum(b, 1, 0, {&scaler, 1}, 132), HasSubstr("fp32"));
}

TEST_F(Travelling, RefusesADamagedMessageOfItsOwn) {
  encode("fp32");
  const_cast<std::uint8_t&>(messages_[1].back()) ^= 1;
  EXPECT_THROW(all_parcels(), CommunicationError);
}

/// Bytes that rank 0 sends for a step of eight workers in that many processes.
std::int64_t sent_by_rank0(const std::string& codec, ExchangeAlgorithm algorithm, int num_processes) {
  const Layout layout = two_tensors();
  const auto workers = worker_gradients(layout, 8);
  std::int64_t sent = 0;
  const auto errors = testing::run_ranks(num_processes, [&](std::shared_ptr<Communicator> communicator) {
    const auto metered = std::make_shared<MeteredCommunicator>(std::move(communicator));
    const WorkerGroup group = make_worker_group(8, metered);
    auto options = options_of(algorithm);
    options.codecs.codec = codec;
    options.codecs.rules.clear();
    CompressedAllReduce exchange(layout, group, options);
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, group.first_local_worker, group.num_local_workers), mean.table, 0);
    if (group.communicator->rank() == 0) sent = metered->sent_bytes();
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  return sent;
}

TEST(GradientTransport, AProcessSendsAsMuchAsOneWorker) {
  // Elements of 4 bytes, and headers, records and eight workers' scalers that are less than one in ten.
  const double gradient = 4.0 * static_cast<double>(two_tensors().num_elements());
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    const auto sent = static_cast<double>(sent_by_rank0("fp32", algorithm, 2));
    EXPECT_GE(sent, gradient) << to_string(algorithm);
    EXPECT_LE(sent, 1.2 * gradient) << to_string(algorithm);
  }
  // Four workers of bf16 are one sum of fp32.
  const auto sent = static_cast<double>(sent_by_rank0("bf16", ExchangeAlgorithm::kAllGather, 2));
  EXPECT_GE(sent, gradient);
  EXPECT_LE(sent, 1.2 * gradient);
}

}  // namespace
}  // namespace terngrad::gradient_transport_test
