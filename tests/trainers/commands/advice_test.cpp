// Costs that are easy to check by hand; compress/cost/exchange_cost_test.cpp tests the cost model.
#include "trainers/commands/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::advice_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Pays = BreakEven::Pays;

ExchangeCost cost_of(const std::string& codec, double bytes, double encode, double check, double decode) {
  return {.codec = codec,
          .wire = {bytes, 2},
          .moved_bytes = bytes,
          .encode_seconds = encode,
          .check_seconds = check,
          .decode_seconds = decode};
}

/// fp32 costs 1 ms and 10 MB; bf16 2 ms and 5 MB; t2 5 ms and 1 MB; t5 8 ms and 0.5 MB.
std::vector<ExchangeCost> costs() {
  return {cost_of("fp32", 10e6, 0.0005, 0, 0.0005), cost_of("bf16", 5e6, 0.001, 0.0005, 0.0005),
          cost_of("t2", 1e6, 0.003, 0.001, 0.001), cost_of("t5", 0.5e6, 0.006, 0.001, 0.001)};
}

/// Two processes with two workers each, on a link of `megabits` Mbit/s.
Advice advice_at(double megabits, double latency = 1e-4) {
  return make_advice({.name = "a net",
                      .num_elements = 2'500'000,
                      .num_tensors = 8,
                      .world = {4, 2},
                      .link = {latency, megabits * 1e6 / 8},
                      .samples = {}},
                     costs());
}

TEST(Advice, ComparesEveryCodecWithBothFloats) {
  const Advice advice = advice_at(100);
  ASSERT_EQ(advice.rows.size(), 4u);
  EXPECT_EQ(advice.rows[0].against_fp32.pays, Pays::kNever);
  EXPECT_EQ(advice.rows[1].against_bf16.pays, Pays::kNever);
  // Saves 5 MB for 1 ms of work, 9 MB for 4 ms, 4 MB for 3 ms.
  EXPECT_EQ(advice.rows[1].against_fp32.pays, Pays::kBelow);
  EXPECT_NEAR(advice.rows[1].against_fp32.bytes_per_second, 5e9, 1);
  EXPECT_NEAR(advice.rows[2].against_fp32.bytes_per_second, 2.25e9, 1);
  EXPECT_NEAR(advice.rows[2].against_bf16.bytes_per_second, 4e9 / 3, 1);
  EXPECT_EQ(advice.rows[0].against_bf16.pays, Pays::kAbove);
  EXPECT_NEAR(advice.rows[0].against_bf16.bytes_per_second, 5e9, 1);
}

TEST(Advice, RecommendsWhatIsFastestOnThisLink) {
  EXPECT_EQ(advice_at(100).recommended, 3u);
  EXPECT_EQ(advice_at(2000).recommended, 2u);    // 0.5 MB take 2 ms; t5 saves them for 3 ms of work
  EXPECT_EQ(advice_at(20'000).recommended, 1u);  // 2.5 GB/s
  EXPECT_EQ(advice_at(80'000).recommended, 0u);  // 10 GB/s
}

TEST(Advice, IsATableAndALine) {
  EXPECT_EQ(
      to_text(advice_at(80)),
      "a net: 2500000 elements in 8 tensors, 4 workers in 2 processes\n"
      "link of each process, as given: 80.0 Mbit/s, latency 100.0 us\n"
      "codec  exchange        wire/process  ratio encode+decode      exchange     spread (middle half)   pays against "
      "fp32       pays against bf16\n"
      "fp32   all_gather           10.0 MB   1.0x      1.000 ms   1001.200 ms                        -   -             "
      "          above 40000.0 Mbit/s\n"
      "bf16   all_gather           5.00 MB   2.0x      2.000 ms    502.200 ms                        -   below 40000.0 "
      "Mbit/s    -\n"
      "t2     all_gather           1.00 MB  10.0x      5.000 ms    105.200 ms                        -   below 18000.0 "
      "Mbit/s    below 10666.7 Mbit/s\n"
      "t5     all_gather            500 kB  20.0x      8.000 ms     58.200 ms                        -   below 10857.1 "
      "Mbit/s    below 6000.0 Mbit/s\n"
      "baselines, the fastest of their type here: fp32 by all_gather, bf16 by all_gather\n"
      "recommendation: t5 (--grad_bits 1 --ternary_format t5): an exchange takes 58.200 ms on this link, with fp32 "
      "1001.200 ms (17.2 times as long), with bf16 502.200 ms\n");
}

TEST(Advice, SaysNotToCompressWithTheReason) {
  EXPECT_EQ(recommendation_text(advice_at(80'000)),
            "recommendation: do not compress (--grad_bits 32): an exchange takes 2.200 ms on this link with fp32, "
            "2.700 ms with the fastest "
            "codec, bf16 (its exchange pays below 40000.0 Mbit/s)");
}

TEST(Advice, RecommendsBf16WithoutNamingItTwice) {
  EXPECT_EQ(
      recommendation_text(advice_at(20'000)),
      "recommendation: bf16 (--grad_bits 16): an exchange takes 4.200 ms on this link, with fp32 5.200 ms (1.2 times "
      "as long)");
}

TEST(Advice, WhatAStepComputesDecidesToo) {
  // Exchanges take 58 ms and 1001 ms; with half a minute of computation per step the difference does not matter.
  Advice advice = advice_at(80);
  const auto with_compute = [&](double seconds) {
    AdviceSubject subject = advice.subject;
    subject.compute = {.measured_batch = 64, .seconds = seconds};
    return make_advice(subject, costs());
  };
  const Advice quick = with_compute(0.1);
  EXPECT_EQ(quick.recommended, 3u);
  EXPECT_EQ(recommendation_text(quick),
            "recommendation: t5 (--grad_bits 1 --ternary_format t5): a step takes 158.200 ms on this link, with fp32 "
            "1101.200 ms (7.0 times as long), with bf16 602.200 ms");
  EXPECT_THAT(to_text(quick), HasSubstr("\non CPUs a step computes gradients of 64 examples in 100.000 ms; exchanges "
                                        "come on top, less what overlaps\nrecommendation: "));
  const Advice slow = with_compute(30);
  EXPECT_FALSE(slow.compress());
  EXPECT_EQ(recommendation_text(slow),
            "recommendation: do not compress (--grad_bits 32): a step takes 31001.200 ms on this link with fp32, "
            "30058.200 ms with the fastest codec, t5 (its exchange pays below 10857.1 Mbit/s)");
  const auto json = to_json(quick);
  EXPECT_EQ(json["compute"]["measured_batch"], 64);
  EXPECT_EQ(json["compute"]["seconds"], 0.1);
  EXPECT_NEAR(json["codecs"][3]["step_seconds"].get<double>(), 0.1582, 1e-9);
  EXPECT_TRUE(to_json(advice)["compute"].is_null());
  AdviceSubject given = advice.subject;
  given.compute = {.seconds = 0.25};
  EXPECT_THAT(to_text(make_advice(given, costs())),
              HasSubstr("\na step computes for 250.000 ms, as given; exchanges "));
  EXPECT_FALSE(to_json(make_advice(given, costs()))["compute"].contains("measured_batch"));
}

TEST(Advice, ALinkMayBeMeasuredAndUnlimited) {
  Advice advice = advice_at(std::numeric_limits<double>::infinity());
  advice.subject.samples = {{1024, 0.001}, {4096, 0.001}};
  EXPECT_THAT(to_text(advice), HasSubstr("link of each process, measured: unlimited, latency 100.0 us\n"));
  const auto json = to_json(advice);
  EXPECT_TRUE(json["link"]["measured"].get<bool>());
  EXPECT_TRUE(json["link"]["bytes_per_second"].is_null());
  EXPECT_EQ(json["link"]["samples"][1]["bytes"], 4096);
}

TEST(Advice, ALatencyThatTheFitDoesNotFindIsNotZero) {
  Advice advice = advice_at(80, 0);
  EXPECT_THAT(to_text(advice), HasSubstr("as given: 80.0 Mbit/s, latency 0.0 us\n"));
  advice.subject.samples = {{1024, 0.001}, {4096, 0.005}};
  EXPECT_THAT(to_text(advice), HasSubstr("measured: 80.0 Mbit/s, latency below what this measures\n"));
}

/// advice_at(80) with two samples per exchange, `seconds` above and below its work.
Advice advice_with_spread(double seconds) {
  std::vector<ExchangeCost> measured = costs();
  for (ExchangeCost& cost : measured) {
    cost.samples = {cost.processor_seconds() - seconds, cost.processor_seconds() + seconds};
  }
  return make_advice(advice_at(80).subject, measured);
}

TEST(Advice, WhatSpreadsTellApartHasAWinner) {
  const Advice advice = advice_with_spread(0.0005);
  EXPECT_THAT(advice.ties, IsEmpty());
  EXPECT_THAT(to_text(advice), HasSubstr(" 58.200 ms      57.700 to 58.700 ms   below 10857.1"));
  EXPECT_THAT(recommendation_text(advice), StartsWith("recommendation: t5 ("));
  const auto json = to_json(advice);
  EXPECT_THAT(json["not_told_apart"], IsEmpty());
  EXPECT_NEAR(json["codecs"][3]["exchange_spread"][1].get<double>(), 0.0587, 1e-12);
  EXPECT_EQ(json["codecs"][3]["samples"].size(), 2u);
}

TEST(Advice, SpreadsThatOverlapHaveNoClearWinner) {
  // t5 takes 58 ms and t2 105 ms, so spreads of 24 ms overlap; bf16 takes 502 ms.
  const Advice advice = advice_with_spread(0.024);
  EXPECT_EQ(
      recommendation_text(advice),
      "recommendation: no clear winner, as the spread of t5 overlaps with that of t2; by medians t5 (--grad_bits 1 "
      "--ternary_format t5): an exchange takes 58.200 ms on this link, with fp32 1001.200 ms (17.2 times as "
      "long), with bf16 502.200 ms");
  EXPECT_EQ(to_json(advice)["not_told_apart"], nlohmann::json::array({"t2"}));
  EXPECT_EQ(to_json(advice)["recommended"], "t5");
  EXPECT_THAT(advice_with_spread(0.0234).ties, IsEmpty());
}

TEST(Advice, AnUnsteadyLinkSpreadsWhatItCarries) {
  // 1 MB takes 5 to 20 ms: t5 (0.5 MB) takes 2.5 to 10 ms and 8 ms of work; t2 (1 MB) 5 to 20 ms and 5 ms of work.
  AdviceSubject subject = advice_at(800, 0).subject;
  subject.samples = {{1e6, 0.010, {0.005, 0.020}}, {2e6, 0.020, {0.010, 0.040}}};
  std::vector<ExchangeCost> measured = costs();
  for (ExchangeCost& cost : measured) cost.samples = {cost.processor_seconds(), cost.processor_seconds()};
  const Advice advice = make_advice(subject, measured);
  ASSERT_EQ(advice.recommended, 3u);
  EXPECT_NEAR(advice.rows[3].spread->low, 0.0105, 1e-9);
  EXPECT_NEAR(advice.rows[3].spread->high, 0.018, 1e-9);
  EXPECT_THAT(advice.ties, ElementsAre(2u));
}

TEST(Advice, JsonHasTheNumbers) {
  const auto json = to_json(advice_at(80));
  EXPECT_EQ(json["num_workers"], 4);
  EXPECT_EQ(json["num_processes"], 2);
  EXPECT_FALSE(json["link"]["measured"].get<bool>());
  EXPECT_EQ(json["link"]["bytes_per_second"], 1e7);
  ASSERT_EQ(json["codecs"].size(), 4u);
  const auto& t2 = json["codecs"][2];
  EXPECT_EQ(t2["codec"], "t2");
  EXPECT_EQ(t2["wire_bytes_per_process"], 1e6);
  EXPECT_EQ(t2["wire_ratio"], 10);  // two processes exchange 10 MB of fp32
  EXPECT_EQ(t2["against_fp32"]["pays"], "below");
  EXPECT_NEAR(t2["against_fp32"]["bytes_per_second"].get<double>(), 2.25e9, 1);
  EXPECT_EQ(json["codecs"][0]["against_fp32"]["pays"], "never");
  EXPECT_EQ(json["codecs"][0]["against_bf16"]["pays"], "above");
  EXPECT_EQ(json["recommended"], "t5");
  EXPECT_TRUE(json["compress"].get<bool>());
  EXPECT_EQ(json["recommendation"], recommendation_text(advice_at(80)));
  EXPECT_FALSE(to_json(advice_at(80'000))["compress"].get<bool>());
}

/// At 100 Mbit/s the vendor library's fp32 takes 2/3 of our time, its bf16 more than ours.
std::vector<ExchangeCost> costs_with_vendor() {
  std::vector<ExchangeCost> all = costs();
  for (const auto& [codec, bytes] : {std::pair{"fp32", 6.6e6}, {"bf16", 5.5e6}, {"fp16", 5.4e6}}) {
    all.push_back(cost_of(codec, bytes, 0.0005, 0, 0.0005));
    all.back().exchange = "vendor";
    all.back().wire.rounds = 0;
    // Bytes are known, independent of the time.
    all.back().moved_bytes = codec == std::string("fp32") ? 10e6 : 5e6;
  }
  return all;
}

Advice advice_with_vendor(double megabits) {
  return make_advice({.name = "a net",
                      .num_elements = 2'500'000,
                      .num_tensors = 8,
                      .world = {2, 2},
                      .link = {1e-4, megabits * 1e6 / 8},
                      .samples = {}},
                     costs_with_vendor());
}

TEST(Advice, BaselinesAreTheFasterOfOursAndTheVendors) {
  const Advice advice = advice_with_vendor(100);
  EXPECT_EQ(advice.fp32_baseline, 4u);
  EXPECT_EQ(advice.bf16_baseline, 1u);
  // t2 takes 5 ms and two latencies of 0.1 ms, the library 1 ms, for 5.6 MB less; our bf16 is unchanged.
  EXPECT_NEAR(advice.rows[2].against_fp32.bytes_per_second, 5.6e6 / 4.2e-3, 1);
  EXPECT_NEAR(advice.rows[2].against_bf16.bytes_per_second, 4e9 / 3, 1);
  // Our fp32 sends 3.4 MB more and takes 0.2 ms longer.
  EXPECT_EQ(advice.rows[0].against_fp32.pays, Pays::kNever);
  const std::string text = to_text(advice);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nfp32   vendor               10.0 MB   1.0x      1.000 ms    529.000 ms                        -   - "));
  EXPECT_THAT(text, HasSubstr("\nbaselines, the fastest of their type here: fp32 by vendor, bf16 by all_gather\n"));
  EXPECT_THAT(text,
              HasSubstr("\nrecommendation: t5 (--grad_bits 1 --ternary_format t5): an exchange takes 48.200 ms on "
                        "this link, with fp32 of vendor 529.000 ms (11.0 times as long), with bf16 402.200 ms\n"));
  const auto json = to_json(advice);
  EXPECT_EQ(json["baselines"]["fp32"], "vendor");
  EXPECT_EQ(json["baselines"]["bf16"], "all_gather");
  EXPECT_EQ(json["codecs"][4]["exchange"], "vendor");
  EXPECT_EQ(json["codecs"][4]["wire_bytes_per_process"], 10e6);
  EXPECT_EQ(json["recommended_exchange"], "all_gather");
  EXPECT_EQ(json["recommended_options"], "--grad_bits 1 --ternary_format t5");
}

TEST(Advice, OptionsAreThoseThatCodecsWereMeasuredWith) {
  Advice advice = advice_at(80);
  advice.subject.clip_factor = 2.5;
  advice.subject.quantize_logits = true;
  EXPECT_EQ(to_json(advice)["recommended_options"],
            "--grad_bits 1 --ternary_format t5 --clip_factor 2.5 --quantize_logits");
  advice.recommended = 1;
  EXPECT_EQ(to_json(advice)["recommended_options"], "--grad_bits 16 --quantize_logits");
  advice.recommended = 0;
  EXPECT_EQ(to_json(advice)["recommended_options"], "--grad_bits 32");
}

TEST(Advice, NotToCompressMayMeanTheVendorsSum) {
  const Advice advice = advice_with_vendor(80'000);  // 10 GB/s: 1.66 ms; with fp16 1.54 ms
  EXPECT_TRUE(advice.compress());
  EXPECT_THAT(recommendation_text(advice),
              HasSubstr("recommendation: fp16 of vendor (--exchange vendor --codec fp16)"));
  const Advice fast = advice_with_vendor(800'000);
  EXPECT_FALSE(fast.compress());
  EXPECT_THAT(
      recommendation_text(fast),
      HasSubstr("recommendation: do not compress (--exchange vendor): an exchange takes 1.066 ms on this link "
                "with fp32 of vendor, 1.054 ms with the fastest codec, fp16 of vendor (its exchange pays always)"));
  EXPECT_EQ(to_json(fast)["recommended"], "fp32");
  EXPECT_EQ(to_json(fast)["recommended_exchange"], "vendor");
}

TEST(Advice, GroupsAreNamedWithTheOptionThatMakesThem) {
  std::vector<ExchangeCost> all = costs();
  for (std::size_t i = 0; i < 3; ++i) {
    all.push_back(all[i]);
    all.back().workers_per_group = 2;
    all.back().wire = {0.4 * all[i].wire.bytes, 0};
  }
  const AdviceSubject subject{.name = "a net",
                              .num_elements = 2'500'000,
                              .num_tensors = 8,
                              .world = {4, 2},
                              .link = {1e-4, 1e7},
                              .samples = {},
                              .clip_factor = 2.5};
  const Advice advice = make_advice(subject, all);
  EXPECT_EQ(advice.recommended, 6u);
  EXPECT_EQ(advice.fp32_baseline, 4u);
  const std::string text = to_text(advice);
  EXPECT_THAT(text, HasSubstr("\nt2     groups of 2          1.00 MB  10.0x      5.000 ms     45.000 ms "));
  EXPECT_THAT(text,
              HasSubstr("\nbaselines, the fastest of their type here: fp32 by groups of 2, bf16 by groups of 2\n"
                        "recommendation: t2 in groups of 2 (--grad_bits 1 --ternary_format t2 --clip_factor 2.5 "
                        "--workers_per_group 2): an exchange takes 45.000 ms on this link, with fp32 in groups of "
                        "2 401.000 ms"));
  const auto json = to_json(advice);
  EXPECT_EQ(json["recommended_exchange"], "groups of 2");
  EXPECT_EQ(json["codecs"][6]["exchange"], "groups of 2");
  EXPECT_EQ(json["codecs"][6]["workers_per_group"], 2);
  EXPECT_EQ(json["codecs"][3]["workers_per_group"], 1);
}

TEST(Advice, NeedsBothFloats) {
  EXPECT_THROW(make_advice({}, {}), InvalidArgument);
  EXPECT_THROW(make_advice({}, {costs()[0]}), InvalidArgument);
  EXPECT_THROW(make_advice({}, {costs()[1], costs()[2]}), InvalidArgument);
  EXPECT_EQ(make_advice(advice_at(100).subject, {costs()[1], costs()[0]}).fp32_baseline, 1u);
}

}  // namespace
}  // namespace terngrad::advice_test
