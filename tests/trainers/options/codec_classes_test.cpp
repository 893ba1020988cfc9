// Every codec with every strategy, exchange and downlink: terngrad_train accepts it, or names the option and the
// reason. See also tests/compress/exchange/codec_classes_test.cpp (the library).
#include "support/codec_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "tests/trainers/train_runs.h"
#include "trainers/options/async_options.h"

namespace terngrad::train_codec_classes_test {
namespace {

using testing::Cells;
using testing::ClassedSpec;
using ::testing::HasSubstr;
using testing::kClassedSpecs;
using testing::operator+;

struct Row {
  std::vector<std::string> options;
  Cells cells;
};

constexpr const char* kRuns = "";
constexpr const char* kNoSums = "--exchange integer_sum: needs codes of some tensor that add up as integers";
constexpr const char* kVendor = "--exchange vendor: adds floating-point numbers of one type";
constexpr const char* kNoCodes = ": needs codes of some tensor that add up as integers";
constexpr const char* kOwnScalers = ": needs scalers that all workers share, and ";
constexpr const char* kNoVoteSums = "--downlink_codec ternary: draws from sums of codes, which the votes of ";
constexpr const char* kNotSparse = "--downlink_codec sparse: needs a sparse codec of some tensor, topk or randomk";
constexpr const char* kNoMean = "--downlink_codec sparse: has no effect with all_gather";
constexpr const char* kNoVote = "--strategy async: gradients of workers do not come together, so there is no vote as ";
constexpr const char* kNoCuts =
    "--pull parameters: servers cut tensors anywhere into the shards that they update, and ";
constexpr const char* kAsync =
    "--strategy async: gradients of workers do not come together, so they cannot share the scalers of ";

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      {{}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
      {{"--exchange", "all_gather"}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
      {{"--exchange", "scatter_reduce"}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
      {{"--exchange", "integer_sum"}, {{kNoSums}, {kNoSums}, {kRuns}, {kRuns}, {kNoSums}, {kNoSums}}},
      {{"--exchange", "vendor"}, {{kRuns}, {kVendor}, {kVendor}, {kVendor}, {kVendor}, {kVendor}}},
      {{"--strategy", "ps"}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
      {{"--strategy", "ps", "--pull", "parameters"}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kNoCuts}, {kNoCuts}}},
      {{"--strategy", "async"}, {{kRuns}, {kRuns}, {kAsync}, {kNoVote}, {kRuns}, {kRuns}}},
      {{"--downlink_codec", "bf16"}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
      {{"--downlink_codec", "sums"}, {{kNoCodes}, {kOwnScalers}, {kRuns}, {kRuns}, {kNoCodes}, {kNoCodes}}},
      {{"--downlink_codec", "ternary"}, {{kNoCodes}, {kOwnScalers}, {kRuns}, {kNoVoteSums}, {kNoCodes}, {kNoCodes}}},
      {{"--downlink_codec", "sparse"}, {{kNotSparse}, {kNotSparse}, {kNotSparse}, {kNotSparse}, {kRuns}, {kNotSparse}}},
      {{"--downlink_codec", "sparse", "--exchange", "all_gather"},
       {{kNotSparse}, {kNotSparse}, {kNotSparse}, {kNotSparse}, {kNoMean}, {kNotSparse}}},
      {{"--overlap", "on", "--bucket_mb", "1"}, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
  };
  return rows;
}

/// Error message of a command line; empty if it is accepted.
std::string refusal_of(const std::vector<std::string>& arguments) {
  TrainOptions o;
  OptionSet options("test");
  try {
    testing::parse(options, o, arguments);
    apply_async_defaults(options, o);
    check_train_options(options, o);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(TrainCodecClasses, HaveEveryCodecOfTheRegistry) { EXPECT_THAT(testing::unclassed_codecs(), ::testing::IsEmpty()); }

TEST(TrainCodecClasses, AreAcceptedOrRefusedWithTheOptionAndItsReason) {
  for (const ClassedSpec& classed : kClassedSpecs) {
    for (const Row& row : rows()) {
      std::vector<std::string> arguments = {"--num_nodes", "2", "--codec", classed.spec};
      arguments = arguments + row.options;
      SCOPED_TRACE(::testing::PrintToString(arguments));
      const testing::Cell& cell = row.cells.of(classed.column);
      // Sparse codecs whose tensors can be cut at chunks are accepted.
      if (cell.refusal == kNoCuts && make_codec(classed.spec, {})->traits().grain_elements == kChunkElements) {
        EXPECT_EQ(refusal_of(arguments), "");
        continue;
      }
      if (cell.runs()) {
        EXPECT_EQ(refusal_of(arguments), "");
      } else {
        EXPECT_THAT(refusal_of(arguments), HasSubstr(cell.refusal));
      }
    }
  }
}

TEST(TrainCodecClasses, KeepWhatTheirMessagesLeaveOutUnlessTheyVoteOrScaleUp) {
  for (const ClassedSpec& classed : kClassedSpecs) {
    const std::string spec = classed.spec;
    const bool votes = classed.column == testing::CodecClass::kVotes;
    const char* const because = spec == "fp32"                                ? "has nothing to keep"
                                : votes                                       ? "a vote is no sum"
                                : make_codec(spec, {})->traits().is_amplified ? "scales up what it sends"
                                                                              : "";
    for (const char* memory : {"ef", "momentum"}) {
      const std::string refusal = refusal_of({"--num_nodes", "2", "--codec", spec, "--codec_memory", memory});
      const bool runs = *because == '\0' || (spec != "fp32" && memory == std::string("momentum"));
      EXPECT_EQ(refusal.empty(), runs) << spec << ' ' << memory << ": " << refusal;
      if (!runs) {
        EXPECT_THAT(refusal, HasSubstr(because)) << spec;
      }
    }
  }
}

// Only codecs with one scaler for all tensors exclude buckets.
TEST(TrainCodecClasses, OneScalerForTheModelGoesWithoutBuckets) {
  EXPECT_THAT(testing::refuse({"--num_nodes", "2", "--codec", "ternary:scope=model", "--bucket_mb", "1"}),
              HasSubstr("--bucket_mb"));
  EXPECT_THAT(
      testing::refuse({"--num_nodes", "2", "--codec", "ternary:scope=model", "--overlap", "on"}),
      HasSubstr(
          "--overlap on: needs an exchange beside the backward pass; this needs another --scaler_scope than model"));
}

// One codec of each column trains with each strategy; with async, ternary has its own scalers by default.
TEST(TrainCodecClasses, TrainByEveryStrategy) {
  const testing::SmallMnist mnist;
  const std::vector<std::vector<std::string>> strategies = {{"--strategy", "replicated"},
                                                            {"--strategy", "ps"},
                                                            {"--strategy", "ps", "--pull", "parameters"},
                                                            {"--strategy", "async"}};
  for (const std::vector<std::string>& strategy : strategies) {
    for (const char* spec : {"bf16", "natural", "ternary", "sign", "topk", "randomk"}) {
      if (spec == std::string("topk") && strategy.size() > 2) continue;  // refuses --pull parameters
      const testing::TemporaryDirectory folder;
      const auto outcome =
          testing::train(mnist.options(folder / "run") +
                         std::vector<std::string>{"--max_steps", "2", "--num_nodes", "2", "--codec", spec} + strategy);
      EXPECT_EQ(outcome.exit_code, kExitSuccess) << spec << " " << ::testing::PrintToString(outcome);
    }
  }
}

}  // namespace
}  // namespace terngrad::train_codec_classes_test
