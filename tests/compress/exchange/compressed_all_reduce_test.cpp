// The mean equals the reference for all algorithms, downlinks and numbers of processes (contract B2); refused options.
// See also compressed_all_reduce_{bytes,damage,decode,nonfinite}_test.cpp.
#include "compress/exchange/compressed_all_reduce.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/sanitized.h"
#include "support/thread_communicator.h"

namespace terngrad::compressed_all_reduce_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::codecs_of;
using testing::expect_reference;
using testing::kAlgorithms;
using testing::kDownlinkCodecs;
using testing::local_exchange;
using testing::mixed_layout;
using testing::options_of;
using testing::options_text;
using testing::ReferenceExchange;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

class OfWorkers : public ::testing::TestWithParam<int> {};

TEST_P(OfWorkers, EveryAlgorithmAndDownlinkGivesTheReferenceMean) {
  const int n = GetParam();
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, n);
  for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
    for (const ExchangeAlgorithm algorithm : kAlgorithms) {
      for (const int threads : {1, 3}) {
        auto options = options_of(algorithm, downlink_codec);
        options.num_threads = threads;
        options.codecs.codec = "ternary:clip_factor=2.5";
        expect_reference(layout, workers, options, 5, word_of(algorithm) + ", " + word_of(downlink_codec));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(OfWorkers, FloatCodecsGiveTheReferenceMean) {
  const int n = GetParam();
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, n);
  for (const char* codec : {"fp32", "bf16"}) {
    for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16}) {
      for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
        auto options = options_of(algorithm, downlink_codec);
        options.codecs.codec = codec;
        expect_reference(layout, workers, options, 1, codec + word_of(algorithm));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(OfWorkers, EveryTernaryFormatGivesTheReferenceMean) {
  const int n = GetParam();
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, n);
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans}) {
    for (const ExchangeAlgorithm algorithm : kAlgorithms) {
      for (const DownlinkCodec downlink_codec : {DownlinkCodec::kFloat32, DownlinkCodec::kTernary}) {
        auto options = options_of(algorithm, downlink_codec);
        options.codecs.codec = ternary_spec({.format = format});
        expect_reference(layout, workers, options, 2, to_string(format) + word_of(algorithm));
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CompressedAllReduce, OfWorkers, ::testing::Values(1, 2, 3, 4, 5, 8, 16));

TEST(CompressedAllReduce, GivesTheReferenceMeanForEveryTernaryOption) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 3);
  for (const ScalerRule rule : {ScalerRule::kPaper, ScalerRule::kOriginal}) {
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
      for (const ClipScope clip_scope : {ClipScope::kShared, ClipScope::kLocal}) {
        for (const ScalerScope scope : testing::few({ScalerScope::kBlock, ScalerScope::kModel, ScalerScope::kLayer})) {
          for (const double c : {0.0, 2.5}) {
            for (const ExchangeAlgorithm algorithm : kAlgorithms) {
              const bool integer = algorithm == ExchangeAlgorithm::kIntegerSum;
              if (integer && sharing == ScalerSharing::kNone) continue;
              const bool shared = sharing != ScalerSharing::kNone;
              auto options = options_of(algorithm, shared && c > 0 ? DownlinkCodec::kTernary : DownlinkCodec::kFloat32);
              TernaryOptions ternary;
              ternary.rule = rule;
              ternary.sharing = sharing;
              ternary.clip_scope = clip_scope;
              ternary.scope = scope;
              ternary.clip_factor = c;
              ternary.block_elements = 64 * 21;  // does not divide a chunk
              options.codecs.codec = ternary_spec(ternary);
              expect_reference(layout, workers, options, 9, options_text(options));
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(CompressedAllReduce, GivesTheReferenceMeanForBlocksThatAreDrawnAhead) {
  // Blocks of whole chunks whose scalers sharing does not change are drawn while measuring.
  const Layout layout = mixed_layout();
  for (const int num_workers : {1, 3}) {
    const auto workers = worker_gradients(layout, num_workers);
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
      for (const std::int64_t block : {4096, 8192}) {
        for (const ExchangeAlgorithm algorithm : kAlgorithms) {
          if (algorithm == ExchangeAlgorithm::kIntegerSum && sharing == ScalerSharing::kNone) continue;
          auto options = options_of(algorithm);
          options.num_threads = 2;
          TernaryOptions ternary;
          ternary.sharing = sharing;
          ternary.scope = ScalerScope::kBlock;
          ternary.block_elements = block;
          ternary.clip_factor = 2.5;
          ternary.clip_scope = block == 4096 ? ClipScope::kShared : ClipScope::kLocal;
          ternary.rule = block == 4096 ? ScalerRule::kPaper : ScalerRule::kOriginal;
          options.codecs.codec = ternary_spec(ternary);
          expect_reference(layout, workers, options, 9, options_text(options));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CompressedAllReduce, GivesTheSameBitsForAnyNumberOfProcesses) {
  const Layout layout = mixed_layout();
  for (const int num_workers : testing::few({3, 5, 4, 8})) {
    const auto workers = worker_gradients(layout, num_workers);
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
        for (const ExchangeAlgorithm algorithm : kAlgorithms) {
          if (sharing == ScalerSharing::kNone &&
              (algorithm == ExchangeAlgorithm::kIntegerSum || downlink_codec == DownlinkCodec::kSums ||
               downlink_codec == DownlinkCodec::kTernary)) {
            continue;
          }
          auto options = options_of(algorithm, downlink_codec);
          options.codecs.codec = ternary_spec({.sharing = sharing});
          CompressedAllReduce alone = local_exchange(layout, num_workers, options);
          ReferenceExchange reference{
              layout, codecs_of(alone, layout), testing::ternary_of(options), downlink_codec, options.seed, 4, {}, {},
              {}};
          const auto expected = reference.run(workers);
          for (const int size : {2, 3}) {
            std::vector<Tensors> means;
            for (int rank = 0; rank < size; ++rank) means.push_back(blank_tensors(layout));
            const auto errors = testing::run_ranks(size, [&](std::shared_ptr<Communicator> communicator) {
              const auto rank = static_cast<std::size_t>(communicator->rank());
              const WorkerGroup group = make_worker_group(num_workers, std::move(communicator));
              CompressedAllReduce exchange(layout, group, options);
              exchange.exchange(tables(workers, group.first_local_worker, group.num_local_workers), means[rank].table,
                                4);
            });
            for (const auto& error : errors) ASSERT_FALSE(error);
            for (const Tensors& mean : means) {
              ASSERT_TRUE(same_bits(expected, mean))
                  << word_of(algorithm) << ", " << word_of(downlink_codec) << ", " << size << " processes";
            }
          }
        }
      }
    }
  }
}

TEST(CompressedAllReduce, FloatsThatProcessesAddBeforeTheyTravelGiveTheReferenceMean) {
  const Layout layout = mixed_layout();
  for (const int num_workers : {6, 7, 8}) {
    const auto workers = worker_gradients(layout, num_workers);
    for (const char* codec : {"fp32", "bf16"}) {
      for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
        auto options = options_of(algorithm);
        options.codecs.codec = codec;
        CompressedAllReduce alone = local_exchange(layout, num_workers, options);
        Tensors expected = blank_tensors(layout);
        const ExchangeReport of_one = alone.exchange(tables(workers, 0, num_workers), expected.table, 4);
        for (const int size : {2, 3, 5}) {
          std::vector<Tensors> means;
          for (int rank = 0; rank < size; ++rank) means.push_back(blank_tensors(layout));
          std::vector<ExchangeReport> reports(static_cast<std::size_t>(size));
          const auto errors = testing::run_ranks(size, [&](std::shared_ptr<Communicator> communicator) {
            const auto rank = static_cast<std::size_t>(communicator->rank());
            const WorkerGroup group = make_worker_group(num_workers, std::move(communicator));
            CompressedAllReduce exchange(layout, group, options);
            reports[rank] = exchange.exchange(tables(workers, group.first_local_worker, group.num_local_workers),
                                              means[rank].table, 4);
          });
          for (const auto& error : errors) ASSERT_FALSE(error);
          ExchangeReport sum;
          for (const ExchangeReport& report : reports) sum += report;
          EXPECT_EQ(sum.sent_bytes(), of_one.sent_bytes()) << codec << word_of(algorithm) << size;
          EXPECT_EQ(sum.received_bytes(), of_one.received_bytes()) << codec << word_of(algorithm) << size;
          for (const Tensors& mean : means) {
            ASSERT_TRUE(same_bits(expected.values, mean)) << codec << word_of(algorithm) << size;
          }
        }
      }
    }
  }
}

TEST(CompressedAllReduce, GivesTheReferenceMeanStepAfterStep) {
  const Layout layout = mixed_layout();
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    const auto options = options_of(algorithm);
    CompressedAllReduce exchange = local_exchange(layout, 4, options);
    for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xabcdef0123}}) {
      const auto workers = worker_gradients(layout, 4, step % 7);
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, 0, 4), mean.table, step);
      ReferenceExchange reference{
          layout, codecs_of(exchange, layout), {}, DownlinkCodec::kFloat32, options.seed, step, {}, {}, {}};
      ASSERT_TRUE(same_bits(reference.run(workers), mean)) << word_of(algorithm);
    }
  }
}

TEST(CompressedAllReduce, TakesMoreWorkersThanChunksAndElements) {
  Layout layout;
  layout.add("a", {3});
  layout.add("b", {0});
  const auto workers = worker_gradients(layout, 16);
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
      auto options = options_of(algorithm, downlink_codec);
      options.codecs.rules.clear();
      expect_reference(layout, workers, options, 1, word_of(algorithm));
    }
  }
}

TEST(CompressedAllReduce, TakesALayoutWithoutElements) {
  Layout layout;
  layout.add("empty", {0});
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
      auto options = options_of(algorithm, downlink_codec);
      options.codecs.rules.clear();
      options.codecs.size_to_binarize = 0;
      expect_reference(layout, worker_gradients(layout, 2), options, 1, word_of(algorithm));
    }
  }
}

TEST(CompressedAllReduce, TakesEmptyExternalTensorsWithoutAPointer) {
  Layout layout;
  layout.add("a", {0});
  layout.add("b", {5});
  std::vector<float> g = {1, 2, 3, 4, 5};
  std::vector<float> m(5);
  const std::vector<float*> in = {nullptr, g.data()};
  const std::vector<float*> out = {nullptr, m.data()};
  for (const std::string codec : {"ternary", "fp32", "bf16"}) {
    for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
      if (codec != "ternary" && downlink_codec != DownlinkCodec::kFloat32) continue;
      auto options = options_of(ExchangeAlgorithm::kAllGather, downlink_codec);
      options.codecs.rules.clear();
      options.codecs.codec = codec;
      options.codecs.size_to_binarize = 0;
      CompressedAllReduce exchange = local_exchange(layout, 1, options);
      const TensorTable gradient(layout, in);
      exchange.exchange({&gradient, 1}, TensorTable(layout, out), 0);
      EXPECT_NO_THROW(exchange.decode_local(0, 0, {}));
    }
  }
}

TEST(CompressedAllReduce, DrawsDoNotDependOnTheCodecsOfOtherTensors) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 2);
  auto options = options_of(ExchangeAlgorithm::kAllGather);
  CompressedAllReduce some = local_exchange(layout, 2, options);
  options.codecs.rules = {{"conv/weights", "fp32"}};
  CompressedAllReduce others = local_exchange(layout, 2, options);
  Tensors a = blank_tensors(layout);
  Tensors b = blank_tensors(layout);
  some.exchange(tables(workers, 0, 2), a.table, 3);
  others.exchange(tables(workers, 0, 2), b.table, 3);
  const auto fc = static_cast<std::size_t>(layout.find("fc/weights"));
  EXPECT_EQ(bits_of(a.values[fc]), bits_of(b.values[fc]));
}

TEST(CompressedAllReduce, OneWorkersSharingAndClipScopeChangeNothing) {
  // Allows commands to refuse these options for one worker.
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 1);
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel}) {
    std::vector<Tensors> means;
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
      for (const ClipScope clip_scope : {ClipScope::kShared, ClipScope::kLocal}) {
        for (const ExchangeAlgorithm algorithm : kAlgorithms) {
          if (algorithm == ExchangeAlgorithm::kIntegerSum && sharing == ScalerSharing::kNone) continue;
          auto options = options_of(algorithm);
          TernaryOptions ternary;
          ternary.sharing = sharing;
          ternary.clip_scope = clip_scope;
          ternary.scope = scope;
          ternary.block_elements = 64;
          ternary.clip_factor = 2.5;
          options.codecs.codec = ternary_spec(ternary);
          CompressedAllReduce exchange = local_exchange(layout, 1, options);
          means.push_back(blank_tensors(layout));
          const ExchangeReport report = exchange.exchange(tables(workers, 0, 1), means.back().table, 3);
          EXPECT_EQ(report.sent_bytes() + report.received_bytes(), 0);
          EXPECT_TRUE(same_bits(means[0].values, means.back())) << options_text(options);
        }
      }
    }
  }
}

TEST(CompressedAllReduce, RefusesIntegerSumWithoutASummableCodec) {
  const Layout layout = mixed_layout();
  auto options = options_of(ExchangeAlgorithm::kIntegerSum);
  options.codecs.codec = "fp32";
  EXPECT_THROW(local_exchange(layout, 2, options), InvalidArgument);
  options = options_of(ExchangeAlgorithm::kIntegerSum);
  options.codecs.codec = "ternary:sharing=none";
  EXPECT_THROW(local_exchange(layout, 2, options), InvalidArgument);
}

TEST(CompressedAllReduce, RefusesADownlinkOfCodesWithoutASharedScaler) {
  for (const DownlinkCodec downlink_codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
    auto options = options_of(ExchangeAlgorithm::kAllGather, downlink_codec);
    options.codecs.codec = "ternary:sharing=none";
    EXPECT_THROW(local_exchange(mixed_layout(), 2, options), InvalidArgument);
  }
}

TEST(CompressedAllReduce, RefusesAnotherNumberOfGradients) {
  const Layout layout = mixed_layout();
  CompressedAllReduce exchange = local_exchange(layout, 2, options_of(ExchangeAlgorithm::kAllGather));
  const auto workers = worker_gradients(layout, 3);
  Tensors mean = blank_tensors(layout);
  EXPECT_THROW(exchange.exchange(tables(workers, 0, 3), mean.table, 0), InvalidArgument);
}

TEST(CompressedAllReduce, GivesOneUncompressedWorkerItsGradientToTheBit) {
  Layout layout;
  layout.add("a", {4});
  layout.add("b", {2});
  CompressedAllReduceOptions options;
  options.codecs.codec = "fp32";
  CompressedAllReduce exchange = local_exchange(layout, 1, options);
  const Tensors gradient(layout, {{1.5f, -0.0f, 1e-42f, 3e38f}, {-2.0f, 3.0f}});
  std::vector<float> flat(static_cast<std::size_t>(layout.flat_elements()), 99.0f);
  const ExchangeReport report = exchange.exchange({&gradient.table, 1}, TensorTable(layout, flat.data()), 7);
  EXPECT_EQ(report.sent_bytes() + report.received_bytes(), 0);
  for (const int segment : {0, 1}) {
    const std::vector<float>& expected = gradient.values[static_cast<std::size_t>(segment)];
    const auto first = flat.begin() + layout.segment(segment).offset;
    EXPECT_EQ(testing::bits_of(std::vector<float>(first, first + std::ssize(expected))), testing::bits_of(expected));
    std::vector<float> sent(expected.size());
    EXPECT_EQ(exchange.decode_local(0, segment, sent), 0);
    EXPECT_EQ(testing::bits_of(sent), testing::bits_of(expected));
  }
  EXPECT_EQ(std::ranges::count(flat, 99.0f), layout.flat_elements() - 6) << "padding stays";
}

TEST(ExchangeAuto, SendsSumsBackWhereTheyAreAskedFor) {
  CompressedAllReduce exchange =
      local_exchange(mixed_layout(), 8, options_of(ExchangeAlgorithm::kAuto, DownlinkCodec::kSums));
  EXPECT_EQ(testing::algorithm_of(exchange), ExchangeAlgorithm::kScatterReduce);
}

TEST(ExchangeAuto, GoesByWorkersInOneProcessToo) {
  const auto chosen_for = [](int num_workers) {
    CompressedAllReduce exchange = local_exchange(mixed_layout(), num_workers, options_of(ExchangeAlgorithm::kAuto));
    return testing::algorithm_of(exchange);
  };
  EXPECT_EQ(chosen_for(2), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(chosen_for(8), ExchangeAlgorithm::kIntegerSum);
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_test
