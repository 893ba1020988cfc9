#include "compress/exchange/codec_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/model_layouts.h"

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

/// Bytes of each shard's codes, and of its mean in `return_bits` per element of tensors with codes and 32 of others.
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

TEST(CodecShards, AreEqualInBytesWhereLogitsTravelAsFloats) {
  const Layout layout = model_layout("alexnet");
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
  const Layout layout = model_layout("lenet");
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
        ASSERT_GT(slice.segment, before);  // one slice of a tensor at most
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
  // Four chunks of codes, a and c, and two of floats.
  EXPECT_EQ(
      shards_by_codec(layout, plan, 2),
      (Shards{{{0, 0, 2 * kChunkElements}, {1, 0, kChunkElements}},
              {{0, 2 * kChunkElements, kChunkElements}, {1, kChunkElements, kChunkElements}, {2, 0, kChunkElements}}}));
}

TEST(CodecShards, RefuseFewerThanOne) {
  const Layout layout = model_layout("lenet");
  EXPECT_THROW(shards_by_codec(layout, plan_of(layout, {}), 0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::codec_shards_test
