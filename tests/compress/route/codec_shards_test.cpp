#include "compress/route/codec_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::codec_shards_test {
namespace {

using Shards = std::vector<std::vector<Slice>>;

CodecPlan plan_of(const Layout& layout, const std::vector<CodecRule>& rules, bool quantize_logits = true) {
  CodecPlanOptions options;
  options.rules = rules;
  options.quantize_logits = quantize_logits;
  options.context.num_workers = 8;
  return {layout, options};
}

/// Bytes of each shard's codes, and of its mean: `return_bits` per element of summable tensors, 32 of the others.
struct Bytes {
  std::vector<std::int64_t> codes;
  std::vector<std::int64_t> mean;
};

Bytes bytes_of(const CodecPlan& plan, const Shards& shards, std::int64_t return_bits) {
  Bytes bytes;
  for (const std::vector<Slice>& shard : shards) {
    std::int64_t codes = 0;
    std::int64_t mean = 0;
    for (const Slice& slice : shard) {
      const Codec& codec = plan.codec_of(slice.segment);
      codes += codec.max_payload_bytes(slice, PayloadForm::kNatural);
      mean += slice.count * (codec.traits().summable ? return_bits : 32) / 8;
    }
    bytes.codes.push_back(codes);
    bytes.mean.push_back(mean);
  }
  return bytes;
}

double unevenness(const std::vector<std::int64_t>& bytes) {
  const auto all = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
  return static_cast<double>(*std::ranges::max_element(bytes)) * static_cast<double>(bytes.size()) / all;
}

/// A large float tensor at the end, like AlexNet's logits, a fourteenth of all elements.
Layout layout_with_large_logits() {
  Layout layout;
  layout.add("fc6/weights", {9216, 4096});
  layout.add("fc7/weights", {4096, 4096});
  layout.add("logits/weights", {4096, 1001}, /*is_logits=*/true);
  return layout;
}

Layout small_layout() {
  Layout layout;
  layout.add("conv/weights", {5, 5, 20, 50});
  layout.add("fc3/weights", {2450, 500});
  layout.add("logits/weights", {500, 10}, /*is_logits=*/true);
  return layout;
}

TEST(CodecShards, AreEqualInBytesWhereLogitsTravelAsFloats) {
  const Layout layout = layout_with_large_logits();
  const CodecPlan plan = plan_of(layout, {}, /*quantize_logits=*/false);
  const Shards equal_elements = shards(layout, 8);
  const Shards by_codec = shards_by_codec(layout, plan, 8);
  // The owner of the logits' 4 million floats has half of all bytes.
  EXPECT_GT(unevenness(bytes_of(plan, equal_elements, 2).codes), 4);
  for (const std::int64_t return_bits : {2, 8, 32}) {
    const Bytes bytes = bytes_of(plan, by_codec, return_bits);
    EXPECT_LT(unevenness(bytes.codes), 1.01);
    EXPECT_LT(unevenness(bytes.mean), 1.01);
  }
}

TEST(CodecShards, WithOneCodecAreThoseOfTheLayout) {
  const Layout layout = small_layout();
  const CodecPlan plan = plan_of(layout, {});
  ASSERT_EQ(plan.groups().size(), 1u);
  for (const int n : {1, 2, 3, 8, 64}) EXPECT_EQ(shards_by_codec(layout, plan, n), shards(layout, n));
}

TEST(CodecShards, CoverEveryElementOnceInOrderOfTheLayout) {
  Layout layout;
  const std::vector<std::int64_t> sizes = {20000, 3, 0, 4096, 8193, 1, 50001};
  for (std::size_t i = 0; i < sizes.size(); ++i) layout.add("t" + std::to_string(i), {sizes[i]});
  const CodecPlan plan = plan_of(layout, {{"t0", "fp32"}, {"t4", "bf16"}, {"t5", "fp32"}});
  for (const int n : {1, 2, 3, 5, 16}) {
    const Shards all = shards_by_codec(layout, plan, n);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(n));
    std::vector<std::int64_t> next(sizes.size(), 0);
    for (const std::vector<Slice>& shard : all) {
      int before = -1;
      for (const Slice& slice : shard) {
        ASSERT_GT(slice.segment, before);  // at most one slice of each tensor
        before = slice.segment;
        ASSERT_EQ(slice.first % kChunkElements, 0);
        ASSERT_GT(slice.count, 0);
        ASSERT_EQ(slice.first, next[static_cast<std::size_t>(slice.segment)]);
        next[static_cast<std::size_t>(slice.segment)] += slice.count;
      }
    }
    EXPECT_EQ(next, sizes) << n << " shards";
  }
}

TEST(CodecShards, ShareOutTheChunksOfEachCodec) {
  Layout layout;
  layout.add("a", {3 * kChunkElements});
  layout.add("b", {2 * kChunkElements});
  layout.add("c", {kChunkElements});
  const CodecPlan plan = plan_of(layout, {{"b", "fp32"}});
  // Four chunks of codes (a and c) and two of floats.
  EXPECT_EQ(
      shards_by_codec(layout, plan, 2),
      (Shards{{{0, 0, 2 * kChunkElements}, {1, 0, kChunkElements}},
              {{0, 2 * kChunkElements, kChunkElements}, {1, kChunkElements, kChunkElements}, {2, 0, kChunkElements}}}));
}

TEST(CodecShards, RefuseFewerThanOne) {
  const Layout layout = small_layout();
  EXPECT_THROW(shards_by_codec(layout, plan_of(layout, {}), 0), InvalidArgument);
}

TEST(CodecShards, CutTensorsOfCodecsWithALargerGrainAtItsMultiplesOrNotAtAll) {
  Layout layout;
  layout.add("first", {50000});
  layout.add("fp32", {5000});
  layout.add("empty", {0});
  layout.add("second", {30000});
  layout.add("third", {20001});
  const auto shards_of = [&](const char* spec, int num_shards) {
    return shards_by_codec(layout, plan_of(layout, {{"fp32", "fp32"}, {"*", spec}}), num_shards);
  };
  // A third of 100,001 elements each: the second tensor starts in the second shard, the third in the last one.
  const Shards whole = shards_of("topk", 3);
  EXPECT_EQ(whole[0], (std::vector<Slice>{{0, 0, 50000}}));
  EXPECT_EQ(whole[1], (std::vector<Slice>{{1, 0, 4096}, {3, 0, 30000}}));
  EXPECT_EQ(whole[2], (std::vector<Slice>{{1, 4096, 904}, {4, 0, 20001}}));
  for (const int num_shards : {1, 2, 7, 40}) {
    std::vector<std::int64_t> elements(5);
    for (const std::vector<Slice>& shard : shards_of("topk:scope=block,block=8192", num_shards)) {
      std::int64_t of_shard = 0;
      for (const Slice& slice : shard) {
        if (slice.segment != 1) {
          EXPECT_EQ(slice.first % 8192, 0);
          of_shard += slice.count;
        }
        EXPECT_EQ(slice.first, elements[static_cast<std::size_t>(slice.segment)]) << "in order, and once";
        elements[static_cast<std::size_t>(slice.segment)] += slice.count;
      }
      EXPECT_LE(of_shard, 100001 / num_shards + 2 * 8192);
    }
    EXPECT_EQ(elements, (std::vector<std::int64_t>{50000, 5000, 0, 30000, 20001}));
  }
}

}  // namespace
}  // namespace terngrad::codec_shards_test
