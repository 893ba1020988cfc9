// Contract B1 on the CPU: equal gradient bits give equal statistics, scalers, codes, payloads and results for every
// SIMD target, number of threads, alignment and placement of tensors.
#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <string>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::same_bits_test {
namespace {

constexpr int kWorkers = 3;

Layout random_layout(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Layout layout;
  const std::size_t num_tensors = 1 + random() % 6;
  for (std::size_t t = 0; t < num_tensors; ++t) {
    const std::int64_t sizes[] = {
        0, 1, static_cast<std::int64_t>(random() % 100), static_cast<std::int64_t>(random() % 9000),
        4096 * static_cast<std::int64_t>(random() % 4) + static_cast<std::int64_t>(random() % 3)};
    layout.add("t" + std::to_string(t), {sizes[random() % 5]});
  }
  return layout;
}

CompressedAllReduceOptions random_options(std::uint64_t seed) {
  std::mt19937_64 random(seed + 1000);
  CompressedAllReduceOptions options;
  const auto pick = [&](auto... choices) {
    const std::common_type_t<decltype(choices)...> all[] = {choices...};
    return all[random() % sizeof...(choices)];
  };
  TernaryOptions ternary;
  ternary.clip_factor = pick(0.0, 1.0, 2.5);
  ternary.rule = pick(ScalerRule::kPaper, ScalerRule::kOriginal);
  ternary.sharing = pick(ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone);
  ternary.clip_scope = pick(ClipScope::kShared, ClipScope::kLocal);
  ternary.scope = pick(ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel);
  ternary.block_elements = pick(64, 192, 4096, 5056, 8192);
  ternary.format = pick(TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans);
  const bool is_asymmetric =
      pick(true, false, false) && ternary.sharing != ScalerSharing::kMean && ternary.scope != ScalerScope::kModel;
  if (is_asymmetric) ternary.levels = TernaryLevels::kAsymmetric;
  const bool shared = ternary.sharing != ScalerSharing::kNone && !is_asymmetric;
  options.downlink_codec = shared ? pick(DownlinkCodec::kFloat32, DownlinkCodec::kSums, DownlinkCodec::kTernary)
                                  : pick(DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16);
  options.algorithm = pick(ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce);
  options.codecs.codec = pick(0, 0, 0, 1) == 0 ? ternary_spec(ternary) : "bf16";
  if (options.codecs.codec == "bf16") options.downlink_codec = pick(DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16);
  options.seed = random();
  if (options.codecs.codec.starts_with("ternary") && options.seed % 4 == 0) {
    ternary.rounding = Rounding::kStratified;
    options.codecs.codec = ternary_spec(ternary);
  }
  if (options.codecs.codec.starts_with("ternary") && options.seed % 3 == 0) {
    options.codecs.codec += ",rotate=" + std::to_string(64 << options.seed / 3 % 7);
  }
  return options;
}

/// Placement of a worker's tensors in memory: one flat buffer, or with odd gaps.
enum class Place { kFlat, kOdd };

/// All message bytes and the bits of the mean.
struct Outcome {
  std::vector<std::vector<std::vector<std::uint8_t>>> messages{kWorkers};
  std::vector<std::uint32_t> sent;  // decoded messages of all workers
  std::vector<std::uint32_t> mean;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run(const Layout& layout, CompressedAllReduceOptions options, int threads, Place place, std::uint64_t seed) {
  std::vector<std::vector<float>> memory;
  std::vector<TensorTable> tables;
  const auto add_table = [&](auto fill) {
    const auto room = static_cast<std::size_t>(layout.flat_elements() + 17 * layout.num_segments() + 17);
    std::vector<float>& values = memory.emplace_back(room, 1e30f);  // the gaps between tensors must not be read
    std::vector<float*> pointers;
    std::size_t at = 0;
    for (const Segment& segment : layout.segments()) {
      at = place == Place::kFlat ? static_cast<std::size_t>(segment.offset)
                                 : at + 1 + static_cast<std::size_t>(segment.offset) % 7;
      pointers.push_back(values.data() + at);
      fill(values.data() + at, segment);
      at += static_cast<std::size_t>(segment.num_elements);
    }
    if (place == Place::kFlat) return TensorTable(layout, values.data());
    return TensorTable(layout, pointers);
  };
  memory.reserve(kWorkers + 1);
  for (std::uint64_t w = 0; w < kWorkers; ++w) {
    tables.push_back(add_table([&](float* out, const Segment& segment) {
      const auto values = testing::gaussian(static_cast<std::size_t>(segment.num_elements),
                                            seed * 100 + w * 10 + static_cast<std::uint64_t>(segment.draw_offset));
      std::copy(values.begin(), values.end(), out);
    }));
  }
  const TensorTable mean = add_table([](float*, const Segment&) {});
  options.num_threads = threads;
  Outcome outcome;
  std::mutex mutex;  // workers may be encoded concurrently
  const auto keep = [&](int worker, std::span<std::uint8_t> message) {
    const std::lock_guard lock(mutex);
    outcome.messages[static_cast<std::size_t>(worker)].emplace_back(message.begin(), message.end());
  };
  CompressedAllReduce exchange(layout, {make_worker_group(kWorkers, make_self_communicator()), keep}, options);
  exchange.exchange(tables, mean, seed);
  for (int worker = 0; worker < static_cast<int>(kWorkers); ++worker) {
    for (int segment = 0; segment < layout.num_segments(); ++segment) {
      std::vector<float> sent(static_cast<std::size_t>(layout.segment(segment).num_elements));
      exchange.decode_local(worker, segment, sent);
      const auto bits = testing::bits_of(sent);
      outcome.sent.insert(outcome.sent.end(), bits.begin(), bits.end());
    }
  }
  for (const Segment& segment : layout.segments()) {
    const float* values = mean.tensor(layout.find(segment.name));
    const auto bits = testing::bits_of({values, static_cast<std::size_t>(segment.num_elements)});
    outcome.mean.insert(outcome.mean.end(), bits.begin(), bits.end());
  }
  return outcome;
}

TEST(SameBits, OnEveryTargetWithAnyThreadsAndAnyPlaceOfTensors) {
  std::size_t num_sent = 0;  // a layout may have no elements
  for (std::uint64_t seed = 0; seed < testing::scaled<std::uint64_t>(24, 6); ++seed) {
    const Layout layout = random_layout(seed);
    const CompressedAllReduceOptions options = random_options(seed);
    const Outcome first = run(layout, options, 1, Place::kFlat, seed);
    num_sent += first.sent.size();
    testing::for_each_target([&](const std::string& target) {
      for (const int threads : {1, 2, 3, 4}) {
        const Place place = threads % 2 == 0 ? Place::kFlat : Place::kOdd;
        ASSERT_TRUE(run(layout, options, threads, place, seed) == first)
            << "seed " << seed << ", " << target << ", " << threads << " threads, place " << static_cast<int>(place);
      }
    });
  }
  EXPECT_GT(num_sent, 0u);
}

TEST(SameBits, DifferForAnotherSeed) {
  Layout layout;
  layout.add("a", {1000});
  CompressedAllReduceOptions options;
  const Outcome one = run(layout, options, 1, Place::kFlat, 1);
  options.seed = 2;
  EXPECT_FALSE(run(layout, options, 1, Place::kFlat, 1) == one);
}

}  // namespace
}  // namespace terngrad::same_bits_test
