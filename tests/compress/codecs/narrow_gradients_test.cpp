// Exchanges of 16-bit gradients: the mean equals that of the elements widened to float32.
#include <gtest/gtest.h>

#include <limits>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/narrow_gradients.h"

namespace terngrad::narrow_gradients_test {
namespace {

using testing::kAlgorithms;
using testing::kNarrowTypes;
using testing::NarrowGradient;

/// Workers' gradients as tables of 16-bit elements, and as tables of their float32 values.
struct NarrowWorkers {
  std::vector<NarrowGradient> tensors;  // all workers' tensors, consecutive
  std::vector<TensorTable> narrow;
  std::vector<TensorTable> widened;

  NarrowWorkers(ElementType type, const Layout& layout, const std::vector<testing::Tensors>& workers) {
    for (const testing::Tensors& worker : workers) {
      for (const std::vector<float>& values : worker.values) tensors.push_back(testing::rounded(type, values));
    }
    const auto num_tensors = static_cast<std::size_t>(layout.num_segments());
    for (std::size_t first = 0; first < tensors.size(); first += num_tensors) {
      std::vector<void*> narrow_pointers;
      std::vector<float*> widened_pointers;
      for (std::size_t t = first; t < first + num_tensors; ++t) {
        narrow_pointers.push_back(tensors[t].elements.data());
        widened_pointers.push_back(tensors[t].widened.data());
      }
      narrow.emplace_back(layout, type, narrow_pointers);
      widened.emplace_back(layout, widened_pointers);
    }
  }
};

std::vector<std::vector<std::uint32_t>> mean_of(const Layout& layout, const std::vector<TensorTable>& gradients,
                                                const CompressedAllReduceOptions& options, ExchangeReport& report) {
  const auto num_workers = static_cast<int>(gradients.size());
  CompressedAllReduce exchange = testing::local_exchange(layout, num_workers, options);
  testing::Tensors mean = testing::blank_tensors(layout);
  for (std::uint64_t step = 1; step <= 2; ++step) report = exchange.exchange(gradients, mean.table, step);
  std::vector<std::vector<std::uint32_t>> bits;
  for (const std::vector<float>& values : mean.values) bits.push_back(testing::bits_of(values));
  return bits;
}

void expect_mean_of_widened(const CompressedAllReduceOptions& options, int num_workers, const std::string& what) {
  const Layout layout = testing::mixed_layout();
  for (const ElementType type : kNarrowTypes) {
    const NarrowWorkers workers(type, layout, testing::worker_gradients(layout, num_workers));
    ExchangeReport narrow;
    ExchangeReport widened;
    ASSERT_EQ(mean_of(layout, workers.narrow, options, narrow), mean_of(layout, workers.widened, options, widened))
        << element_type_name(type) << ", " << what;
    ASSERT_EQ(narrow.gradient.sent, widened.gradient.sent) << what;
  }
}

TEST(NarrowExchange, GivesTheMeanOfTheWidenedForEveryCodec) {
  // With ternary, some tensors of the layout are fp32 and bf16.
  for (const std::string codec : {"fp32", "bf16", "ternary"}) {
    for (const ExchangeAlgorithm algorithm : kAlgorithms) {
      if (algorithm == ExchangeAlgorithm::kIntegerSum && codec != "ternary") continue;
      CompressedAllReduceOptions options = testing::options_of(algorithm);
      options.codecs.codec = codec;
      options.num_threads = 2;
      expect_mean_of_widened(options, 3, codec + ' ' + word_of(algorithm));
    }
  }
}

TEST(NarrowExchange, GivesTheMeanOfTheWidenedForTernaryOptions) {
  for (const ScalerScope scope : {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel}) {
    for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone}) {
      for (const ClipScope clip_scope : {ClipScope::kShared, ClipScope::kLocal}) {
        for (const TernaryFormat format :
             {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans}) {
          CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
          TernaryOptions ternary;
          ternary.scope = scope;
          ternary.sharing = sharing;
          ternary.clip_scope = clip_scope;
          ternary.clip_factor = 2.5;
          ternary.format = format;
          ternary.block_elements = 4096;  // t2 with unshared scalers is drawn while measuring
          options.codecs.codec = ternary_spec(ternary);
          expect_mean_of_widened(options, 2, testing::options_text(options));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(NarrowExchange, FlagsWhatIsNotFinite) {
  const Layout layout = testing::mixed_layout();
  for (const ElementType type : kNarrowTypes) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::size_t tensor : {3u, 5u, 6u}) {  // ternary, fp32, bf16
        std::vector<testing::Tensors> spoilt = testing::worker_gradients(layout, 2);
        spoilt[1].values[tensor][17] = bad;
        const NarrowWorkers workers(type, layout, spoilt);
        CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAllGather);
        options.on_nonfinite = OnNonfinite::kSkip;
        ExchangeReport narrow;
        ExchangeReport widened;
        mean_of(layout, workers.narrow, options, narrow);
        mean_of(layout, workers.widened, options, widened);
        EXPECT_TRUE(narrow.skipped) << element_type_name(type) << ' ' << tensor;
        EXPECT_EQ(narrow.nonfinite, widened.nonfinite);
      }
    }
  }
}

TEST(NarrowExchange, RefusesAMeanOf16Bits) {
  const Layout layout = testing::mixed_layout();
  const NarrowWorkers workers(ElementType::kBfloat16, layout, testing::worker_gradients(layout, 2));
  CompressedAllReduce exchange = testing::local_exchange(layout, 2, testing::options_of(ExchangeAlgorithm::kAllGather));
  EXPECT_THROW(exchange.exchange(workers.narrow, workers.narrow[0], 1), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::narrow_gradients_test
