// Tensors with the same codec but different options.
#include "compress/exchange/compressed_all_reduce.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/exchanges.h"

namespace terngrad::compressed_all_reduce_codecs_test {
namespace {

using testing::options_of;
using testing::tables;

/// Mean of `workers`, with codecs by `rules`.
testing::Tensors mean_of(const Layout& layout, const std::vector<testing::Tensors>& workers,
                         ExchangeAlgorithm algorithm, const std::vector<CodecRule>& rules) {
  auto options = options_of(algorithm);
  options.codecs.rules = rules;
  const int num_workers = static_cast<int>(workers.size());
  testing::Tensors mean = testing::blank_tensors(layout);
  CompressedAllReduce exchange = testing::local_exchange(layout, num_workers, options);
  exchange.exchange(tables(workers, 0, num_workers), mean.table, 5);
  return mean;
}

TEST(CompressedAllReduceCodecs, OfOneNameWithOtherOptionsLeaveEachOthersTensorsAlone) {
  const Layout layout = testing::mixed_layout();
  const std::vector<testing::Tensors> workers = testing::worker_gradients(layout, 3);
  const std::map<std::string, std::string> specs = {
      {"conv/weights", "ternary:clip_factor=2.5,format=tmask"},
      {"conv/biases", "ternary:levels=asymmetric"},
      {"empty", "ternary:format=tmask,levels=asymmetric"},
      {"fc/weights", "ternary:scope=block,block=4096,format=t5,sharing=none"},
      {"one", "ternary:levels=asymmetric,sharing=none"},
      {"plain", "fp32"},
      {"half", "ternary:scope=block,block=64,sharing=mean"},
  };
  std::vector<CodecRule> rules;
  for (const auto& [name, spec] : specs) rules.push_back({name, spec});
  for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
    const testing::Tensors mean = mean_of(layout, workers, algorithm, rules);
    for (int t = 0; t < layout.num_segments(); ++t) {
      // Compares with an exchange in which all tensors have this codec, by an algorithm that all codecs support.
      const std::string& spec = specs.at(layout.segment(t).name);
      const testing::Tensors alone = mean_of(layout, workers, ExchangeAlgorithm::kAllGather, {{"*", spec}});
      const auto index = static_cast<std::size_t>(t);
      EXPECT_EQ(testing::bits_of(mean.values[index]), testing::bits_of(alone.values[index]))
          << layout.segment(t).name << ", " << word_of(algorithm);
    }
  }
}

}  // namespace
}  // namespace terngrad::compressed_all_reduce_codecs_test
