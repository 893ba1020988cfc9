// Sums of subtrees instead of workers' slices: when they are sent, their content, and errors. See also
// compressed_all_reduce_test.cpp (means are bit-identical).
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
#include "compress/wire/payload_rows.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
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
  options.context.num_workers = num_workers;
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
  EXPECT_FALSE(adds_any("fp32", 8, 1));  // nothing is sent
  EXPECT_TRUE(adds_any("fp32", 8, 2));
  EXPECT_TRUE(adds_any("fp32", 8, 4));
  EXPECT_FALSE(adds_any("fp32", 8, 8));
  EXPECT_TRUE(adds_any("fp32", 6, 4));   // one of four processes has two workers that are a subtree
  EXPECT_FALSE(adds_any("fp32", 3, 2));  // workers 1 and 2 of three are not a subtree
  EXPECT_TRUE(adds_any("bf16", 8, 2));
  EXPECT_FALSE(adds_any("bf16", 8, 4));  // a sum of two takes as many bits as two workers
  EXPECT_FALSE(adds_any("bf16", 6, 2));  // 2 + 1 and 1 + 2: four sums of 32 bits instead of six times 16
  EXPECT_FALSE(adds_any("ternary", 8, 2));
}

/// Processes that append their messages, and one that reads them.
class Travelling : public ::testing::Test {
 protected:
  struct Rank {
    GradientTransport transport;
    PayloadRows rows;
    std::vector<std::unique_ptr<Coder>> coders;
  };

  void encode(const std::string& codec) {
    plan_ = std::make_unique<CodecPlan>(plan_of(layout_, codec, kWorkers));
    ranks_.clear();
    for (int rank = 0; rank < kProcesses; ++rank) add_rank(rank);
    for (const auto& rank : ranks_) share_scalers(*rank);
  }
  Parcels all_parcels() {
    Parcels parcels;
    for (const auto& rank : ranks_) append(*rank, parcels);
    return parcels;
  }
  /// @param between  called after each part
  void append(
      Rank& rank, Parcels& parcels, const std::function<void()>& between = [] {}) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      rank.transport.append(rank.rows, rank.coders, part, kContext, parcels, stream_);
      between();
    }
  }
  /// Replaces rank 1's scalers on rank 0 by flags, as scaler messages do if scalers are not shared.
  /// @param flagged  worker whose first tensor is marked as non-finite; -1: none
  void hear_flags(int flagged = -1) {
    Coder& coder = *ranks_[0]->coders[0];
    for (int w = 3; w < 6; ++w) std::ranges::fill(coder.local_row(w), w == flagged ? canonical_nan() : 0.0f);
    NonfiniteReport report;
    coder.combine_scalers(&report, nullptr, nullptr, stream_);
  }
  /// Reads messages on rank 0. @returns the error message, empty if they are accepted
  std::string refusal_of(const Parcels& parcels) {
    try {
      read(0, parcels);
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "";
  }
  void read(std::size_t rank, const Parcels& parcels) {
    ranks_[rank]->transport.read(parcels, ranks_[rank]->rows, ranks_[rank]->coders, kContext, stream_);
  }

  static constexpr int kWorkers = 6;    // subtrees 4 and 2
  static constexpr int kProcesses = 2;  // three workers each: 2 + 1, and 1 + 2
  Layout layout_ = two_tensors();
  Stream stream_{Device::cpu(), 2};
  std::vector<std::vector<Slice>> parts_ = {whole_segments(layout_)};
  std::vector<Tensors> gradients_ = worker_gradients(layout_, kWorkers);
  std::unique_ptr<CodecPlan> plan_;
  std::vector<std::unique_ptr<Rank>> ranks_;

 private:
  void add_rank(int number) {
    const WorkerRange workers = worker_range(kWorkers, number, kProcesses);
    ranks_.push_back(
        std::unique_ptr<Rank>(new Rank{.transport = {layout_, *plan_, ranks_of(kWorkers, kProcesses), number},
                                       .rows = {*plan_, workers, parts_, PayloadForm::kNatural},
                                       .coders = {}}));
    Rank& rank = *ranks_.back();
    rank.transport.expect_parts(rank.rows, 0, parts_.size());
    rank.coders = make_coders(*plan_, {.layout = layout_, .workers = workers},
                              [&rank](std::size_t) -> PayloadRows& { return rank.rows; });
    const auto gradients = tables(gradients_, workers.first_local_worker, workers.num_local_workers);
    for (const auto& coder : rank.coders) coder->measure(gradients, {kContext.step, nullptr}, stream_);
  }
  /// Copies the other ranks' scalers to a rank, then encodes.
  void share_scalers(Rank& rank) {
    NonfiniteReport report;
    const WorkerRange& workers = rank.rows.workers();
    const auto gradients = tables(gradients_, workers.first_local_worker, workers.num_local_workers);
    for (std::size_t group = 0; group < rank.coders.size(); ++group) {
      for (const auto& other : ranks_) {
        const WorkerRange& theirs = other->rows.workers();
        if (other.get() == &rank) continue;
        for (int w = theirs.first_local_worker; w < theirs.first_local_worker + theirs.num_local_workers; ++w) {
          std::ranges::copy(other->coders[group]->local_row(w), rank.coders[group]->local_row(w).begin());
        }
      }
      rank.coders[group]->combine_scalers(&report, nullptr, nullptr, stream_);
      rank.coders[group]->encode(gradients, {kContext.step, nullptr}, stream_);
    }
  }
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
  read(1, parcels);
  const PayloadSlots& codes = ranks_[1]->coders[0]->slots();
  EXPECT_EQ(codes.num_payloads, 6);
  EXPECT_TRUE(codes.summed_workers.empty());
  for (int w = 0; w < 6; ++w) {
    const std::size_t sender = w < 3 ? 0 : 1;
    const auto sent = ranks_[sender]->rows.payload(0, 0, static_cast<std::size_t>(w % 3));
    const std::span<const std::uint8_t> came(
        codes.incoming[static_cast<std::size_t>(w)],
        static_cast<std::size_t>(codes.incoming_bytes[static_cast<std::size_t>(w)]));
    EXPECT_TRUE(std::ranges::equal(came, sent)) << w;
    if (sender == 1) {
      EXPECT_EQ(came.data(), sent.data()) << w;  // own messages are not copied
    }
  }
  const PayloadSlots& sums = ranks_[1]->coders[1]->slots();
  EXPECT_EQ(sums.summed_workers, (std::vector<int>{2, 1, 1, 2}));
  EXPECT_EQ(sums.num_payloads, 4);
}

TEST_F(Travelling, BytesAreThoseOfWholeMessages) {
  for (const char* codec : {"ternary", "fp32"}) {
    encode(codec);
    read(0, all_parcels());
    const Rank& reader = *ranks_[0];
    for (int w = 0; w < 6; ++w) {
      const Rank& sender = *ranks_[w < 3 ? 0 : 1];
      EXPECT_EQ(reader.transport.bytes_of(reader.rows, w, 0),
                sender.rows.message_bytes(0, static_cast<std::size_t>(w % 3)))
          << codec;
    }
  }
}

TEST_F(Travelling, WithAFilterReadsItsOwnMessagesToo) {
  encode("ternary");
  ranks_[0]->transport.set_filter([](int worker, std::span<std::uint8_t> message) {
    if (worker == 1) message.back() ^= 1;
  });
  EXPECT_THAT(refusal_of(all_parcels()), HasSubstr("checksum"));
}

TEST_F(Travelling, RefusesOtherScalersThanThoseAgreedOn) {
  encode("ternary");
  ranks_[1]->coders[0]->local_row(0)[0] *= 4;  // known to rank 1 only
  NonfiniteReport report;
  ranks_[1]->coders[0]->combine_scalers(&report, nullptr, nullptr, stream_);
  EXPECT_THAT(refusal_of(all_parcels()), HasSubstr("scalers"));
}

TEST_F(Travelling, BringsTheScalersOfCodecsThatShareNone) {
  parts_ = {{{0, 0, 4096}, {1, 0, 33}}, {{0, 4096, 904}}};
  for (const char* codec : {"qsgd:block=640", "ternary:levels=asymmetric,sharing=none"}) {
    encode(codec);
    hear_flags();
    const Coder& reader = *ranks_[0]->coders[0];
    const Coder& sender = *ranks_[1]->coders[0];
    EXPECT_EQ(reader.sent_scalers(4)[0], 0.0f);
    ASSERT_EQ(refusal_of(all_parcels()), "");
    for (int w = 0; w < 6; ++w) {
      EXPECT_TRUE(std::ranges::equal(reader.sent_scalers(w), sender.sent_scalers(w))) << codec << " " << w;
      EXPECT_GT(reader.sent_scalers(w)[0], 0.0f);
    }
  }
}

TEST_F(Travelling, RefusesScalersOfATensorThatIsFlagged) {
  encode("qsgd:block=640");
  hear_flags(/*flagged=*/4);
  EXPECT_THAT(refusal_of(all_parcels()), HasSubstr("message of worker 4, of tensor 'a': [qsgd] its scalers"));
}

TEST_F(Travelling, RefusesTwoScalersOfABlockThatACutGoesThrough) {
  parts_ = {{{0, 0, 4096}, {1, 0, 33}}, {{0, 4096, 904}}};
  encode("qsgd:block=640");  // block 6 begins at 3840
  hear_flags();
  for (const std::size_t block : {6u, 7u}) {
    Parcels parcels;
    append(*ranks_[0], parcels);
    float& scaler = ranks_[1]->coders[0]->received_scalers(4)[block];
    const float before = scaler;
    append(*ranks_[1], parcels, [&] { scaler = 2 * before; });
    scaler = before;
    const std::string refusal = refusal_of(parcels);
    if (block == 6) {
      EXPECT_THAT(refusal, HasSubstr("worker 4's slices of tensor 'a' have different scalers for one block"));
    } else {
      EXPECT_EQ(refusal, "");  // the second slice is consistent by itself
    }
  }
}

TEST_F(Travelling, RefusesAnyFlippedByte) {
  encode("ternary");
  Parcels parcels = all_parcels();
  ASSERT_EQ(refusal_of(parcels), "");
  for (const std::size_t i : {3u, 5u, 9u}) {  // a sum, and rank 1's codes and sums
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
  EXPECT_THAT(reordered({0, 1, 2, 3, 4, 6, 5, 7, 8, 9}), HasSubstr("worker 4"));
  EXPECT_THAT(reordered({0, 1, 2, 3, 4, 5, 6, 8, 7, 9}), HasSubstr("kind"));
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

/// Bytes that rank 0 sends in a step of eight workers in `num_processes` processes.
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
  // 4 bytes per element; headers, records and scalers of eight workers are below 10 %.
  const double gradient = 4.0 * static_cast<double>(two_tensors().num_elements());
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    const auto sent = static_cast<double>(sent_by_rank0("fp32", algorithm, 2));
    EXPECT_GE(sent, gradient) << word_of(algorithm);
    EXPECT_LE(sent, 1.2 * gradient) << word_of(algorithm);
  }
  // Four bf16 workers are sent as one fp32 sum.
  const auto sent = static_cast<double>(sent_by_rank0("bf16", ExchangeAlgorithm::kAllGather, 2));
  EXPECT_GE(sent, gradient);
  EXPECT_LE(sent, 1.2 * gradient);
}

}  // namespace
}  // namespace terngrad::gradient_transport_test
