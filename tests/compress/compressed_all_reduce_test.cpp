#include "compress/compressed_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <mutex>
#include <string>

#include "kernels/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference_exchange.h"
#include "support/scale.h"
#include "support/thread_communicator.h"

namespace terngrad {
namespace {

using ::testing::AllOf;
using testing::bits_of;
using testing::blank_tensors;
using testing::gaussian_tensors;
using ::testing::HasSubstr;
using testing::ReferenceExchange;
using testing::Tensors;

constexpr ExchangeAlgorithm kAlgorithms[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                             ExchangeAlgorithm::kIntegerSum, ExchangeAlgorithm::kAuto};
constexpr ReturnCodec kReturns[] = {ReturnCodec::kFloat32, ReturnCodec::kBfloat16, ReturnCodec::kSums,
                                    ReturnCodec::kTernary};

/// Small, ragged, empty and multi-chunk tensors; the last two travel as fp32 and bf16.
Layout mixed_layout() {
  Layout layout;
  layout.add("conv/weights", {9, 500});  // two chunks
  layout.add("conv/biases", {7});
  layout.add("empty", {0});
  layout.add("fc/weights", {8193});
  layout.add("one", {1});
  layout.add("plain", {101});
  layout.add("half", {35});
  return layout;
}

CompressedAllReduceOptions options_of(ExchangeAlgorithm algorithm, ReturnCodec return_codec = ReturnCodec::kFloat32) {
  CompressedAllReduceOptions options;
  options.algorithm = algorithm;
  options.return_codec = return_codec;
  options.seed = 77;
  options.run_id = 99;
  options.codecs.rules = {{"plain", "fp32"}, {"half", "bf16"}};
  return options;
}

/// What a failure names.
std::string options_text(const CompressedAllReduceOptions& options) {
  return to_string(options.algorithm) + ", " + to_string(options.return_codec) + ", " +
         TernaryCodec(options.codecs.codec_options.ternary).options_text();
}

std::vector<std::string> codecs_of(const CompressedAllReduce& exchange, const Layout& layout) {
  std::vector<std::string> names;
  for (int t = 0; t < layout.num_segments(); ++t) names.push_back(exchange.plan().codec_of(t).name());
  return names;
}

std::vector<Tensors> worker_gradients(const Layout& layout, int num_workers, std::uint64_t seed = 0) {
  std::vector<Tensors> workers;
  for (int w = 0; w < num_workers; ++w) {
    workers.push_back(gaussian_tensors(layout, seed * 100 + static_cast<std::uint64_t>(w) + 1, 1.0 + 0.1 * w));
  }
  return workers;
}

std::vector<TensorTable> tables(const std::vector<Tensors>& workers, int first, int count) {
  std::vector<TensorTable> result;
  for (int w = first; w < first + count; ++w) result.push_back(workers[static_cast<std::size_t>(w)].table);
  return result;
}

CompressedAllReduce local_exchange(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options) {
  return {layout, make_worker_group(num_workers, make_self_communicator()), options};
}

::testing::AssertionResult same_bits(const std::vector<std::vector<float>>& expected, const Tensors& found) {
  for (std::size_t t = 0; t < expected.size(); ++t) {
    for (std::size_t i = 0; i < expected[t].size(); ++i) {
      if (bits_of(expected[t][i]) != bits_of(found.values[t][i])) {
        return ::testing::AssertionFailure() << "tensor " << t << " element " << i << ": expected " << expected[t][i]
                                             << ", found " << found.values[t][i];
      }
    }
  }
  return ::testing::AssertionSuccess();
}

/// Exchanges in one process and compares with the reference.
void expect_reference(const Layout& layout, const std::vector<Tensors>& workers,
                      const CompressedAllReduceOptions& options, std::uint64_t step, const std::string& what) {
  const auto num_workers = static_cast<int>(workers.size());
  CompressedAllReduce exchange = local_exchange(layout, num_workers, options);
  Tensors mean = blank_tensors(layout);
  exchange.exchange(tables(workers, 0, num_workers), mean.table, step);
  ReferenceExchange reference{layout,
                              codecs_of(exchange, layout),
                              options.codecs.codec_options.ternary,
                              options.return_codec,
                              options.seed,
                              step,
                              {},
                              {},
                              {}};
  ASSERT_TRUE(same_bits(reference.run(workers), mean)) << what;
}

class OfWorkers : public ::testing::TestWithParam<int> {};

TEST_P(OfWorkers, EveryAlgorithmAndReturnLegGivesTheReferenceMean) {
  const int n = GetParam();
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, n);
  for (const ReturnCodec return_codec : kReturns) {
    for (const ExchangeAlgorithm algorithm : kAlgorithms) {
      for (const int threads : {1, 3}) {
        auto options = options_of(algorithm, return_codec);
        options.num_threads = threads;
        options.codecs.codec_options.ternary.clip_factor = 2.5;
        expect_reference(layout, workers, options, 5, to_string(algorithm) + ", " + to_string(return_codec));
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
    for (const ReturnCodec return_codec : {ReturnCodec::kFloat32, ReturnCodec::kBfloat16, ReturnCodec::kSums}) {
      for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
        auto options = options_of(algorithm, return_codec);
        options.codecs.codec = codec;
        expect_reference(layout, workers, options, 1, codec + to_string(algorithm));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(OfWorkers, EveryTernaryFormatGivesTheReferenceMean) {
  const int n = GetParam();
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, n);
  for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask}) {
    for (const ExchangeAlgorithm algorithm : kAlgorithms) {
      for (const ReturnCodec return_codec : {ReturnCodec::kFloat32, ReturnCodec::kTernary}) {
        auto options = options_of(algorithm, return_codec);
        options.codecs.codec_options.ternary.format = format;
        expect_reference(layout, workers, options, 2, to_string(format) + to_string(algorithm));
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
        for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel}) {
          for (const double c : {0.0, 2.5}) {
            for (const ExchangeAlgorithm algorithm : kAlgorithms) {
              const bool integer = algorithm == ExchangeAlgorithm::kIntegerSum;
              if (integer && sharing == ScalerSharing::kNone) continue;
              const bool shared = sharing != ScalerSharing::kNone;
              auto options = options_of(algorithm, shared && c > 0 ? ReturnCodec::kTernary : ReturnCodec::kFloat32);
              TernaryOptions& ternary = options.codecs.codec_options.ternary;
              ternary.rule = rule;
              ternary.sharing = sharing;
              ternary.clip_scope = clip_scope;
              ternary.scope = scope;
              ternary.clip_factor = c;
              ternary.block_elements = 64 * 21;  // no divisor of a chunk
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
  // Blocks of whole chunks with scalers that sharing does not change: codes are drawn while they are measured.
  const Layout layout = mixed_layout();
  for (const int num_workers : {1, 3}) {
    const auto workers = worker_gradients(layout, num_workers);
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
      for (const std::int64_t block : {4096, 8192}) {
        for (const ExchangeAlgorithm algorithm : kAlgorithms) {
          if (algorithm == ExchangeAlgorithm::kIntegerSum && sharing == ScalerSharing::kNone) continue;
          auto options = options_of(algorithm);
          options.num_threads = 2;
          TernaryOptions& ternary = options.codecs.codec_options.ternary;
          ternary.sharing = sharing;
          ternary.scope = ScalerScope::kBlock;
          ternary.block_elements = block;
          ternary.clip_factor = 2.5;
          ternary.clip_scope = block == 4096 ? ClipScope::kShared : ClipScope::kLocal;
          ternary.rule = block == 4096 ? ScalerRule::kPaper : ScalerRule::kOriginal;
          expect_reference(layout, workers, options, 9, options_text(options));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CompressedAllReduce, GivesTheSameBitsForAnyNumberOfProcesses) {
  const Layout layout = mixed_layout();
  for (const int num_workers : {3, 4, 5, 8}) {
    const auto workers = worker_gradients(layout, num_workers);
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      for (const ReturnCodec return_codec : kReturns) {
        for (const ExchangeAlgorithm algorithm : kAlgorithms) {
          if (sharing == ScalerSharing::kNone &&
              (algorithm == ExchangeAlgorithm::kIntegerSum || return_codec == ReturnCodec::kSums ||
               return_codec == ReturnCodec::kTernary)) {
            continue;
          }
          auto options = options_of(algorithm, return_codec);
          options.codecs.codec_options.ternary.sharing = sharing;
          CompressedAllReduce alone = local_exchange(layout, num_workers, options);
          ReferenceExchange reference{layout,
                                      codecs_of(alone, layout),
                                      options.codecs.codec_options.ternary,
                                      return_codec,
                                      options.seed,
                                      4,
                                      {},
                                      {},
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
                  << to_string(algorithm) << ", " << to_string(return_codec) << ", " << size << " processes";
            }
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
          layout, codecs_of(exchange, layout), {}, ReturnCodec::kFloat32, options.seed, step, {}, {}, {}};
      ASSERT_TRUE(same_bits(reference.run(workers), mean)) << to_string(algorithm);
    }
  }
}

TEST(CompressedAllReduce, TakesMoreWorkersThanChunksAndElements) {
  Layout layout;
  layout.add("a", {3});
  layout.add("b", {0});
  const auto workers = worker_gradients(layout, 16);
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const ReturnCodec return_codec : kReturns) {
      auto options = options_of(algorithm, return_codec);
      options.codecs.rules.clear();
      expect_reference(layout, workers, options, 1, to_string(algorithm));
    }
  }
}

TEST(CompressedAllReduce, TakesALayoutWithoutElements) {
  Layout layout;
  layout.add("empty", {0});
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const ReturnCodec return_codec : kReturns) {
      auto options = options_of(algorithm, return_codec);
      options.codecs.rules.clear();
      options.codecs.size_to_binarize = 0;
      expect_reference(layout, worker_gradients(layout, 2), options, 1, to_string(algorithm));
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
  for (const char* codec : {"ternary", "fp32", "bf16"}) {
    for (const ReturnCodec return_codec : kReturns) {
      auto options = options_of(ExchangeAlgorithm::kAllGather, return_codec);
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

TEST(CompressedAllReduce, DecodeLocalIsWhatWasSent) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 3);
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
      if (sharing == ScalerSharing::kNone && algorithm == ExchangeAlgorithm::kIntegerSum) continue;
      auto options = options_of(algorithm);
      options.codecs.codec_options.ternary.sharing = sharing;
      CompressedAllReduce exchange = local_exchange(layout, 3, options);
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, 0, 3), mean.table, 6);
      ReferenceExchange reference{layout,
                                  codecs_of(exchange, layout),
                                  options.codecs.codec_options.ternary,
                                  ReturnCodec::kFloat32,
                                  options.seed,
                                  6,
                                  {},
                                  {},
                                  {}};
      reference.run(workers);
      for (int w = 0; w < 3; ++w) {
        for (int t = 0; t < layout.num_segments(); ++t) {
          const auto tensor = static_cast<std::size_t>(t);
          const auto worker = static_cast<std::size_t>(w);
          std::vector<float> decoded(static_cast<std::size_t>(layout.segment(t).num_elements), -1);
          exchange.decode_local(w, t, decoded);
          for (std::size_t i = 0; i < decoded.size(); ++i) {
            float expected = workers[worker].values[tensor][i];
            if (reference.codecs[tensor] == "bf16") expected = reference::from_bfloat16(reference::bfloat16(expected));
            if (reference.codecs[tensor] == "ternary") {
              const float s = sharing == ScalerSharing::kNone ? reference.local_scalers[worker][tensor][0]
                                                              : reference.shared_scalers[tensor][0];
              expected = s * static_cast<float>(reference.codes[tensor][worker][i]);
            }
            ASSERT_EQ(bits_of(decoded[i]), bits_of(expected)) << to_string(algorithm) << w << " " << t << " " << i;
          }
        }
      }
    }
  }
}

TEST(CompressedAllReduce, DecodeLocalRefusesWhatIsNotThere) {
  const Layout layout = mixed_layout();
  CompressedAllReduce exchange = local_exchange(layout, 2, options_of(ExchangeAlgorithm::kAllGather));
  std::vector<float> out(7);
  EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);  // no step yet
  const auto workers = worker_gradients(layout, 2);
  Tensors mean = blank_tensors(layout);
  exchange.exchange(tables(workers, 0, 2), mean.table, 0);
  EXPECT_NO_THROW(exchange.decode_local(0, 1, out));
  EXPECT_THROW(exchange.decode_local(2, 1, out), InvalidArgument);
  EXPECT_THROW(exchange.decode_local(-1, 1, out), InvalidArgument);
  EXPECT_THROW(exchange.decode_local(0, 7, out), InvalidArgument);
  std::vector<float> short_out(6);
  EXPECT_THROW(exchange.decode_local(0, 1, short_out), InvalidArgument);
}

// ---- refusals ------------------------------------------------------------------------------------------------------

TEST(CompressedAllReduce, RefusesIntegerSumWithoutASummableCodec) {
  const Layout layout = mixed_layout();
  auto options = options_of(ExchangeAlgorithm::kIntegerSum);
  options.codecs.codec = "fp32";
  EXPECT_THROW(local_exchange(layout, 2, options), InvalidArgument);
  options = options_of(ExchangeAlgorithm::kIntegerSum);
  options.codecs.codec_options.ternary.sharing = ScalerSharing::kNone;
  EXPECT_THROW(local_exchange(layout, 2, options), InvalidArgument);
}

TEST(CompressedAllReduce, RefusesAReturnLegOfCodesWithoutASharedScaler) {
  for (const ReturnCodec return_codec : {ReturnCodec::kSums, ReturnCodec::kTernary}) {
    auto options = options_of(ExchangeAlgorithm::kAllGather, return_codec);
    options.codecs.codec_options.ternary.sharing = ScalerSharing::kNone;
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

// ---- NaN and infinity ----------------------------------------------------------------------------------------------

class OnNonfiniteTest : public ::testing::TestWithParam<ExchangeAlgorithm> {
 protected:
  Layout layout_ = mixed_layout();
  std::vector<Tensors> workers_ = worker_gradients(layout_, 3);
  Tensors mean_ = blank_tensors(layout_);
  ExchangeReport run(const CompressedAllReduceOptions& options) {
    CompressedAllReduce exchange = local_exchange(layout_, 3, options);
    return exchange.exchange(tables(workers_, 0, 3), mean_.table, 12);
  }
  void spoil(const char* tensor, int worker, float value) {
    workers_[static_cast<std::size_t>(worker)].values[static_cast<std::size_t>(layout_.find(tensor))].back() = value;
  }
};

TEST_P(OnNonfiniteTest, StopNamesTensorWorkerAndStep) {
  for (const char* tensor : {"fc/weights", "plain", "half"}) {
    workers_ = worker_gradients(layout_, 3);
    spoil(tensor, 2, std::numeric_limits<float>::quiet_NaN());
    try {
      run(options_of(GetParam()));
      FAIL() << "nothing was thrown";
    } catch (const NonFiniteError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(tensor), HasSubstr("worker 2"), HasSubstr("step 12")));
    }
  }
}

TEST_P(OnNonfiniteTest, SkipDropsTheStep) {
  spoil("plain", 1, std::numeric_limits<float>::infinity());
  auto options = options_of(GetParam());
  options.on_nonfinite = OnNonfinite::kSkip;
  const ExchangeReport report = run(options);
  EXPECT_TRUE(report.skipped);
  EXPECT_THAT(report.nonfinite, AllOf(HasSubstr("plain"), HasSubstr("worker 1"), HasSubstr("step 12")));
}

TEST_P(OnNonfiniteTest, ZeroCountsTheTensorAsZeroAndStillDividesByN) {
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
    if (sharing == ScalerSharing::kNone && GetParam() == ExchangeAlgorithm::kIntegerSum) continue;
    for (const auto& [scope, block] : {std::pair(ScalerScope::kLayer, 64), std::pair(ScalerScope::kModel, 64),
                                       std::pair(ScalerScope::kBlock, 1344), std::pair(ScalerScope::kBlock, 4096)}) {
      workers_ = worker_gradients(layout_, 3);
      spoil("fc/weights", 1, -std::numeric_limits<float>::infinity());
      spoil("plain", 0, std::numeric_limits<float>::quiet_NaN());
      spoil("half", 2, std::numeric_limits<float>::infinity());
      auto options = options_of(GetParam());
      options.on_nonfinite = OnNonfinite::kZero;
      TernaryOptions& ternary = options.codecs.codec_options.ternary;
      ternary.sharing = sharing;
      ternary.scope = scope;
      ternary.block_elements = block;
      ternary.clip_factor = 2.5;
      ternary.clip_scope = ClipScope::kLocal;
      const ExchangeReport report = run(options);
      EXPECT_FALSE(report.skipped);
      EXPECT_THAT(report.nonfinite, HasSubstr("and 2 more"));
      ReferenceExchange reference{layout_,
                                  {"ternary", "ternary", "fp32", "ternary", "ternary", "fp32", "bf16"},
                                  ternary,
                                  ReturnCodec::kFloat32,
                                  options.seed,
                                  12,
                                  {},
                                  {},
                                  {}};
      EXPECT_TRUE(same_bits(reference.run(workers_), mean_)) << to_string(GetParam());
    }
  }
}

TEST_P(OnNonfiniteTest, ASkippedStepLeavesNothingToDecode) {
  auto options = options_of(GetParam());
  options.on_nonfinite = OnNonfinite::kSkip;
  CompressedAllReduce exchange = local_exchange(layout_, 3, options);
  exchange.exchange(tables(workers_, 0, 3), mean_.table, 0);
  spoil("plain", 1, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(exchange.exchange(tables(workers_, 0, 3), mean_.table, 1).skipped);
  std::vector<float> out(7);
  EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);
  workers_ = worker_gradients(layout_, 3);
  EXPECT_FALSE(exchange.exchange(tables(workers_, 0, 3), mean_.table, 2).skipped);  // and it goes on
  EXPECT_NO_THROW(exchange.decode_local(0, 1, out));
}

/// Means of tensors of finite elements that are beyond fp32 or bfloat16, by return codec.
struct Overflow {
  const char* tensor;
  float value;
  ReturnCodec return_codec;
};
constexpr Overflow kOverflows[] = {
    {"plain", 3e38f, ReturnCodec::kFloat32},    // the sum of three
    {"plain", -3e38f, ReturnCodec::kBfloat16},  // infinite before it is rounded
    {"half", 2e38f, ReturnCodec::kFloat32},     // bfloat16 on the way there
    {"half", -3.3e38f, ReturnCodec::kSums},     // goes back as fp32
};

TEST_P(OnNonfiniteTest, AMeanThatOverflowsIsFound) {
  for (const auto& [tensor, value, return_codec] : kOverflows) {
    workers_ = worker_gradients(layout_, 3);
    for (const int worker : {0, 1, 2}) spoil(tensor, worker, value);
    auto options = options_of(GetParam(), return_codec);
    try {
      run(options);
      FAIL() << "nothing was thrown";
    } catch (const NonFiniteError& error) {
      EXPECT_EQ(error.what(), "step 12: the mean of tensor '" + std::string(tensor) + "' overflows to infinity");
    }
    options.on_nonfinite = OnNonfinite::kSkip;
    CompressedAllReduce exchange = local_exchange(layout_, 3, options);
    const ExchangeReport skipped = exchange.exchange(tables(workers_, 0, 3), mean_.table, 12);
    EXPECT_TRUE(skipped.skipped);
    EXPECT_THAT(skipped.nonfinite, HasSubstr(tensor));
    std::vector<float> out(7);
    EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);
    options.on_nonfinite = OnNonfinite::kZero;
    const ExchangeReport zeroed = run(options);
    EXPECT_FALSE(zeroed.skipped);
    EXPECT_EQ(zeroed.nonfinite, skipped.nonfinite);
    const auto index = static_cast<std::size_t>(layout_.find(tensor));
    EXPECT_THAT(mean_.values[index], ::testing::Each(0.0f));
    // All others are as ever.
    ReferenceExchange reference{layout_,
                                {"ternary", "ternary", "fp32", "ternary", "ternary", "fp32", "bf16"},
                                options.codecs.codec_options.ternary,
                                return_codec,
                                options.seed,
                                12,
                                {},
                                {},
                                {}};
    auto expected = reference.run(workers_);
    std::ranges::fill(expected[index], 0.0f);
    EXPECT_TRUE(same_bits(expected, mean_)) << tensor;
  }
}

TEST_P(OnNonfiniteTest, WorkersAndMeansAreNamedTogether) {
  spoil("fc/weights", 1, std::numeric_limits<float>::quiet_NaN());
  for (const int worker : {0, 1, 2}) spoil("plain", worker, 3e38f);
  auto options = options_of(GetParam());
  options.on_nonfinite = OnNonfinite::kZero;
  EXPECT_EQ(run(options).nonfinite,
            "step 12: tensor 'fc/weights' of worker 1 holds NaN or infinity; the mean of tensor 'plain' overflows to "
            "infinity");
}

INSTANTIATE_TEST_SUITE_P(CompressedAllReduce, OnNonfiniteTest,
                         ::testing::Values(ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                           ExchangeAlgorithm::kIntegerSum));

TEST(CompressedAllReduce, ReturnLegThatRoundsToInfinityIsFound) {
  // One worker, whose gradient is finite as it is: the greatest bfloat16 goes through, what lies half a step above not.
  Layout layout;
  layout.add("a", {3});
  for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
    for (const auto& [bits, overflows] : {std::pair(0x7f7f7fffu, false), std::pair(0xff7f8000u, true)}) {
      Tensors gradient = blank_tensors(layout);
      gradient.values[0] = {1.0f, std::bit_cast<float>(bits), 2.0f};
      auto options = options_of(algorithm, ReturnCodec::kBfloat16);
      options.codecs.rules = {};
      options.codecs.codec = "fp32";
      options.on_nonfinite = OnNonfinite::kSkip;
      CompressedAllReduce exchange = local_exchange(layout, 1, options);
      Tensors mean = blank_tensors(layout);
      const TensorTable tables[] = {gradient.table};
      EXPECT_EQ(exchange.exchange(tables, mean.table, 0).skipped, overflows) << to_string(algorithm);
    }
  }
}

TEST(CompressedAllReduce, UnsharedScalersWhoseSumOverflowsAreFound) {
  Layout layout;
  layout.add("a", {100});
  std::vector<Tensors> workers = worker_gradients(layout, 8);
  for (Tensors& worker : workers) std::ranges::fill(worker.values[0], 0x1p126f);  // the greatest scaler
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kNone}) {
    for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
      auto options = options_of(algorithm);
      options.codecs.rules = {};
      options.codecs.codec_options.ternary.sharing = sharing;
      options.on_nonfinite = OnNonfinite::kSkip;
      CompressedAllReduce exchange = local_exchange(layout, 8, options);
      Tensors mean = blank_tensors(layout);
      // The sum is 2^129; the integer sum is 8.
      EXPECT_EQ(exchange.exchange(tables(workers, 0, 8), mean.table, 0).skipped, sharing == ScalerSharing::kNone);
    }
  }
}

TEST(CompressedAllReduce, OneWorkersSharingAndClipScopeChangeNothing) {
  // Why a command may refuse these options for one worker.
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 1);
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel}) {
    std::vector<Tensors> means;
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
      for (const ClipScope clip_scope : {ClipScope::kShared, ClipScope::kLocal}) {
        for (const ExchangeAlgorithm algorithm : kAlgorithms) {
          if (algorithm == ExchangeAlgorithm::kIntegerSum && sharing == ScalerSharing::kNone) continue;
          auto options = options_of(algorithm);
          TernaryOptions& ternary = options.codecs.codec_options.ternary;
          ternary.sharing = sharing;
          ternary.clip_scope = clip_scope;
          ternary.scope = scope;
          ternary.block_elements = 64;
          ternary.clip_factor = 2.5;
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

// ---- damage --------------------------------------------------------------------------------------------------------

TEST(CompressedAllReduce, OneFlippedByteFailsTheStep) {
  Layout layout;
  layout.add("a", {50});
  layout.add("plain", {3});
  const auto workers = worker_gradients(layout, 2);
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    auto options = options_of(algorithm);
    options.codecs.rules = {{"plain", "fp32"}};
    CompressedAllReduce exchange = local_exchange(layout, 2, options);
    std::size_t at = std::numeric_limits<std::size_t>::max();
    std::size_t longest = 0;
    exchange.set_message_filter([&](int worker, std::span<std::uint8_t> message) {
      longest = std::max(longest, message.size());
      if (worker == 1 && at < message.size()) message[at] ^= 0x10;
    });
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, 0, 2), mean.table, 0);  // undamaged: finds the longest message
    for (at = 0; at < longest; ++at) {
      ASSERT_THROW(exchange.exchange(tables(workers, 0, 2), mean.table, at), CommunicationError)
          << to_string(algorithm) << ", byte " << at;
    }
    EXPECT_NO_THROW(exchange.exchange(tables(workers, 0, 2), mean.table, 1000));
  }
}

TEST(CompressedAllReduce, DamageInOneProcessFailsTheStep) {
  const Layout layout = mixed_layout();
  const auto workers = worker_gradients(layout, 4);
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    const auto errors = testing::run_ranks(2, [&](std::shared_ptr<Communicator> communicator) {
      const bool damages = communicator->rank() == 1;
      const WorkerGroup group = make_worker_group(4, std::move(communicator));
      CompressedAllReduce exchange(layout, group, options_of(algorithm));
      if (damages) {
        exchange.set_message_filter([](int, std::span<std::uint8_t> message) { message.back() ^= 1; });
      }
      Tensors mean = blank_tensors(layout);
      exchange.exchange(tables(workers, group.first_local_worker, 2), mean.table, 0);
    });
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_THROW(std::rethrow_exception(error), CommunicationError);
    }
  }
}

TEST(CompressedAllReduce, RefusesPeersOfAnotherRunLayoutOrCodec) {
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
      if (odd && w == 2) options.codecs.codec_options.ternary.clip_factor = 2.5;
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

// ---- byte counts ---------------------------------------------------------------------------------------------------

std::int64_t up8(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Header, and for each (scalers, code bytes) a record, its scalers and its codes, all but the last filled up to 8.
std::int64_t message_bytes(const std::vector<std::pair<std::int64_t, std::int64_t>>& slices) {
  std::int64_t bytes = 64 + 48 * static_cast<std::int64_t>(slices.size());
  for (const auto& [scalers, codes] : slices) bytes = up8(bytes) + up8(4 * scalers) + codes;
  return bytes;
}

class ByteCounts : public ::testing::Test {
 protected:
  ByteCounts() {
    layout_.add("a", {3 * 4096 + 1});  // 4 chunks: one per worker
    layout_.add("b", {10});            // in the last share
  }
  ExchangeReport run(int n, ExchangeAlgorithm algorithm, ReturnCodec return_codec = ReturnCodec::kFloat32) {
    auto options = options_of(algorithm, return_codec);
    options.codecs.rules = {{"b", "fp32"}};
    CompressedAllReduce exchange = local_exchange(layout_, n, options);
    Tensors mean = blank_tensors(layout_);
    return exchange.exchange(tables(worker_gradients(layout_, n), 0, n), mean.table, 0);
  }
  Layout layout_;
};

TEST_F(ByteCounts, OfAllGatherAreWholeMessagesToEveryOther) {
  const ExchangeReport report = run(3, ExchangeAlgorithm::kAllGather);
  const std::int64_t scalers = message_bytes({{1, 0}, {1, 0}});
  const std::int64_t gradient = message_bytes({{1, (3 * 4096 + 16) / 16 * 4}, {1, 40}});
  EXPECT_EQ(report.scalers.sent, 3 * scalers);
  EXPECT_EQ(report.scalers.received, 3 * 2 * scalers);
  EXPECT_EQ(report.gradient.sent, 3 * gradient);
  EXPECT_EQ(report.gradient.received, 3 * 2 * gradient);
  EXPECT_EQ(report.mean.sent, 0);
  EXPECT_EQ(report.mean.received, 0);
  EXPECT_EQ(report.sent_bytes(), 3 * (scalers + gradient));
  EXPECT_EQ(report.received_bytes(), 6 * (scalers + gradient));
}

TEST_F(ByteCounts, OfScatterReduceAreSharesToTheirOwners) {
  const ExchangeReport report = run(2, ExchangeAlgorithm::kScatterReduce);
  // Five chunks: share 0 has two of a, share 1 two of a (one element in the last) and b.
  const std::int64_t share0 = message_bytes({{1, 2 * 1024}});
  const std::int64_t share1 = message_bytes({{1, 1024 + 4}, {1, 40}});
  EXPECT_EQ(report.gradient.sent, share0 + share1);
  EXPECT_EQ(report.gradient.received, share0 + share1);
  const std::int64_t mean0 = message_bytes({{0, 2 * 4096 * 4}});
  const std::int64_t mean1 = message_bytes({{0, 4097 * 4}, {0, 40}});
  EXPECT_EQ(report.mean.sent, mean0 + mean1);
  EXPECT_EQ(report.mean.received, mean0 + mean1);
}

TEST_F(ByteCounts, OfReturnLegsAreThoseOfTheirFormat) {
  const auto mean_sent = [&](ReturnCodec codec) { return run(2, ExchangeAlgorithm::kScatterReduce, codec).mean.sent; };
  EXPECT_EQ(mean_sent(ReturnCodec::kBfloat16),
            message_bytes({{0, 2 * 4096 * 2}}) + message_bytes({{0, 4097 * 2 + 2}, {0, 20}}));
  EXPECT_EQ(mean_sent(ReturnCodec::kTernary), message_bytes({{1, 2048}}) + message_bytes({{1, 1028}, {0, 40}}));
  // N = 2: lanes of 3 bits, 21 in a word: 391 words for 8192 sums, 196 for 4097.
  EXPECT_EQ(mean_sent(ReturnCodec::kSums), message_bytes({{1, 391 * 8}}) + message_bytes({{1, 196 * 8}, {0, 40}}));
}

TEST_F(ByteCounts, OfIntegerSumAreLanesAndTheirSums) {
  const ExchangeReport report = run(3, ExchangeAlgorithm::kIntegerSum);
  // N = 3: lanes of 3 bits, 21 in a word: 586 words for 12289 codes. b goes by all-gather.
  const std::int64_t lanes = message_bytes({{1, 586 * 8}});
  const std::int64_t rest = message_bytes({{1, 40}});
  EXPECT_EQ(report.gradient.sent, 3 * (lanes + rest));
  EXPECT_EQ(report.gradient.received, 3 * 2 * rest);
  EXPECT_EQ(report.mean.received, 3 * 586 * 8);
}

TEST_F(ByteCounts, OfOneWorkerAreZero) {
  // What a worker keeps for itself counts as neither sent nor received.
  for (const ExchangeAlgorithm algorithm : kAlgorithms) {
    const ExchangeReport report = run(1, algorithm);
    EXPECT_EQ(report.sent_bytes(), 0) << to_string(algorithm);
    EXPECT_EQ(report.received_bytes(), 0) << to_string(algorithm);
  }
}

TEST_F(ByteCounts, DoNotDependOnTheNumberOfProcesses) {
  const auto workers = worker_gradients(layout_, 4);
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    const auto total = [&](int size) {
      std::mutex mutex;
      ExchangeReport sum;
      testing::run_ranks(size, [&](std::shared_ptr<Communicator> communicator) {
        const WorkerGroup group = make_worker_group(4, std::move(communicator));
        auto options = options_of(algorithm);
        options.codecs.rules = {{"b", "fp32"}};
        CompressedAllReduce exchange(layout_, group, options);
        Tensors mean = blank_tensors(layout_);
        const auto report =
            exchange.exchange(tables(workers, group.first_local_worker, group.num_local_workers), mean.table, 0);
        const std::lock_guard lock(mutex);
        sum.gradient.sent += report.sent_bytes();
        sum.gradient.received += report.received_bytes();
      });
      return std::pair(sum.gradient.sent, sum.gradient.received);
    };
    const auto alone = total(1);
    EXPECT_GT(alone.first, 0);
    EXPECT_EQ(total(2), alone) << to_string(algorithm);
    EXPECT_EQ(total(4), alone) << to_string(algorithm);
  }
}

TEST(ExchangeAlgorithmText, NamesAll) {
  EXPECT_EQ(to_string(ExchangeAlgorithm::kAllGather), "all_gather");
  EXPECT_EQ(to_string(ExchangeAlgorithm::kScatterReduce), "scatter_reduce");
  EXPECT_EQ(to_string(ExchangeAlgorithm::kIntegerSum), "integer_sum");
  EXPECT_EQ(to_string(ExchangeAlgorithm::kAuto), "auto");
}

TEST(ExchangeAuto, SendsSumsBackWhereTheyAreAskedFor) {
  CompressedAllReduce exchange =
      local_exchange(mixed_layout(), 8, options_of(ExchangeAlgorithm::kAuto, ReturnCodec::kSums));
  EXPECT_EQ(exchange.algorithm(), ExchangeAlgorithm::kScatterReduce);
}

TEST(ExchangeAuto, GathersInOneProcess) {
  EXPECT_EQ(local_exchange(mixed_layout(), 8, options_of(ExchangeAlgorithm::kAuto)).algorithm(),
            ExchangeAlgorithm::kAllGather);
}

}  // namespace
}  // namespace terngrad
