// The command with a single process; tests/mpi/tools_test.py runs it with several.
#include "bench/exchange_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainers/command_runs.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::bench::exchange_command_test {
namespace {

using testing::CommandOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
using testing::operator+;

CommandOutcome bench(const std::vector<std::string>& more) {
  return testing::run_command(
      "terngrad_exchange_bench", run_exchange_bench,
      std::vector<std::string>{"--threads", "1", "--repetitions", "1", "--warm_up", "0"} + more);
}

void expect_refused(const CommandOutcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("terngrad_exchange_bench: error: "));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
}

TEST(ExchangeBench, HelpAndVersionGoToStdout) {
  EXPECT_THAT(bench({"--help"}).out, HasSubstr("--quantize_logits"));
  EXPECT_THAT(bench({"--version"}).out, StartsWith("terngrad_exchange_bench "));
}

TEST(ExchangeBench, MeasuresAllCodecsByDefault) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "exchange.json").string();
  const CommandOutcome outcome = bench({"--num_nodes", "2", "--json", file});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.out, StartsWith("lenet: 1256080 elements in 8 tensors, 2 workers in 1 process, 1 thread "
                                      "each\nnothing travels between processes"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("predicted")));
  const auto json = nlohmann::json::parse(read_file_text(file));
  std::vector<std::string> measured;
  for (const auto& result : json["results"]) {
    measured.push_back(result["codec"].get<std::string>() + " " + result["exchange"].get<std::string>());
    EXPECT_GT(result["slowest"]["total_seconds"].get<double>(), 0);
    EXPECT_EQ(result["slowest"]["sent_bytes"], 0);  // single process
  }
  EXPECT_THAT(measured, ElementsAre("fp32 all_gather", "bf16 all_gather", "t2 all_gather", "t5 all_gather",
                                    "fp32 vendor", "bf16 vendor", "fp16 vendor"));
}

TEST(ExchangeBench, MeasuresWhatIsAskedFor) {
  const CommandOutcome outcome = bench({"--num_nodes", "3", "--codec", "t5", "--codec", "bf16", "--exchange",
                                        "all_gather", "--exchange", "scatter_reduce", "--predict"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  for (const char* row :
       {"t5         all_gather", "bf16       all_gather", "t5         scatter_reduce", "bf16       scatter_reduce"}) {
    EXPECT_THAT(outcome.out, HasSubstr("\n" + std::string(row))) << row;
  }
  EXPECT_THAT(outcome.out, HasSubstr("\n           predicted "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("fp32")));
  // Default codecs and exchanges that do not fit the named ones are left out.
  const CommandOutcome ternary = bench({"--num_nodes", "2", "--codec", "t2"});
  EXPECT_THAT(ternary.out, Not(HasSubstr("vendor")));
  const CommandOutcome gathered = bench({"--num_nodes", "2", "--exchange", "all_gather"});
  EXPECT_THAT(gathered.out, Not(HasSubstr("fp16")));
  const CommandOutcome vendor = bench({"--num_nodes", "2", "--codec", "fp16", "--exchange", "vendor"});
  EXPECT_THAT(vendor.out, HasSubstr("\nfp16       vendor"));
  EXPECT_THAT(vendor.out, Not(HasSubstr("all_gather")));
  const CommandOutcome sums = bench({"--num_nodes", "2", "--codec", "t2", "--exchange", "integer_sum"});
  EXPECT_THAT(sums.out, HasSubstr("\nt2         integer_sum"));
}

TEST(ExchangeBench, MeasuresCodecsBySpecs) {
  const CommandOutcome outcome = bench({"--num_nodes", "2", "--codec", "ternary:format=tmask,sharing=none", "--codec",
                                        "ternary:clip_factor=0", "--exchange", "all_gather", "--predict"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("\ncodec                             exchange "));
  EXPECT_THAT(outcome.out, HasSubstr("\nternary:format=tmask,sharing=none all_gather "));
  EXPECT_THAT(outcome.out, HasSubstr("\nternary:clip_factor=0             all_gather "));
  EXPECT_THAT(outcome.out, HasSubstr("\n                                  predicted "));
  const CommandOutcome sums =
      bench({"--num_nodes", "2", "--codec", "ternary:clip_factor=0", "--exchange", "integer_sum"});
  EXPECT_THAT(sums.out, HasSubstr("\nternary:clip_factor=0 integer_sum"));
}

TEST(ExchangeBench, ListsTheCodecs) { EXPECT_THAT(bench({"--list_codecs"}).out, HasSubstr("\nternary\n")); }

TEST(ExchangeBench, RefusesAFileThatCannotBeWritten) {
  const TemporaryDirectory folder;
  const std::string nowhere = (folder / "nowhere" / "exchange.json").string();
  expect_refused(bench({"--num_nodes", "2", "--json", nowhere}), {"--json " + nowhere, "No such file"});
}

TEST(ExchangeBench, RefusesWhatItCannotHonour) {
  expect_refused(bench({"--num_nodes", "2", "--exchange", "integer_sum"}), {"--exchange integer_sum", "--codec t2"});
  expect_refused(bench({"--num_nodes", "2", "--exchange", "integer_sum", "--codec", "t2", "--predict"}),
                 {"--predict", "all_gather"});
  expect_refused(bench({"--num_nodes", "2", "--exchange", "vendor", "--codec", "t2"}),
                 {"--exchange vendor", "fp32, bf16, fp16"});
  expect_refused(bench({"--num_nodes", "2", "--exchange", "vendor", "--codec", "fp32", "--codec", "t5"}),
                 {"--codec t5", "all_gather"});
  expect_refused(bench({"--num_nodes", "2", "--exchange", "auto", "--codec", "fp32", "--codec", "fp16"}),
                 {"--codec fp16", "vendor"});
  expect_refused(bench({"--num_nodes", "2", "--exchange", "auto", "--exchange", "vendor", "--codec", "fp16"}),
                 {"--exchange auto", "--codec fp32, bf16, t2, t5"});
  expect_refused(bench({}), {"--num_nodes 1", "exchanges nothing", "2 or more"});
  expect_refused(bench({"--num_nodes", "2", "--exchange_timeout", "3"}), {"--exchange_timeout", "mpirun"});
  expect_refused(bench({"--num_nodes", "2", "--codec", "fp32", "--quantize_logits"}),
                 {"--quantize_logits", "other than fp32"});
  expect_refused(bench({"--num_nodes", "2", "--exchange", "vendor", "--quantize_logits"}),
                 {"--quantize_logits", "other than vendor"});
  expect_refused(bench({"--num_nodes", "2", "--codec", "bf16", "--clip_factor", "2"}), {"--clip_factor", "t2 or t5"});
  expect_refused(bench({"--num_nodes", "2", "--codec", "tmask"}),
                 {"--codec tmask", "fp32, bf16, ternary", "t2, t5, fp16"});
  expect_refused(bench({"--num_nodes", "2", "--codec", "ternary:bits=4"}), {"--codec ternary:bits=4", "no key 'bits'"});
  expect_refused(bench({"--num_nodes", "2", "--codec", "ternary:clip_factor=1", "--clip_factor", "2"}),
                 {"--clip_factor 2: contradicts clip_factor=1 in --codec ternary:clip_factor=1"});
  for (const char* codec : {"ternary:sharing=none", "ternary:format=t5", "bf16", "fp16"}) {
    expect_refused(bench({"--num_nodes", "2", "--exchange", "integer_sum", "--codec", codec}), {"--exchange"});
  }
  expect_refused(bench({"--num_nodes", "2", "--layout", "resnet"}), {"--layout", "resnet"});
}

}  // namespace
}  // namespace terngrad::bench::exchange_command_test
