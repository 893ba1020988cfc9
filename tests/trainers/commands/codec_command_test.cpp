#include "trainers/commands/codec_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainers/command_runs.h"
#include "tests/trainers/gradient_files.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/inspect/gradient_file.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::codec_command_test {
namespace {

namespace fs = std::filesystem;
using testing::CommandOutcome;
using testing::gaussian;
using ::testing::HasSubstr;
using testing::npy_of;
using testing::TemporaryDirectory;

CommandOutcome codec(const std::vector<std::string>& arguments) {
  return testing::run_command("terngrad_codec", run_codec, arguments);
}

/// Output of a command that must succeed.
std::string printed(const std::vector<std::string>& arguments) {
  const CommandOutcome outcome = codec(arguments);
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

/// Expects one line on stderr that contains all `words`, and no other output.
void expect_error(int exit_code, const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  const CommandOutcome outcome = codec(arguments);
  EXPECT_EQ(outcome.exit_code, exit_code) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::StartsWith("terngrad_codec: error: "));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
}

/// A folder with dumped steps of two workers.
class Dumped {
 public:
  Dumped() {
    testing::write_step(folder / "step-0000000010.safetensors", 1);
    testing::write_step(folder / "step-0000000020.safetensors", 2);
  }
  std::string path() const { return folder.path().string(); }
  TemporaryDirectory folder;
};

TEST(CodecCommand, InspectsAFolderOfSteps) {
  const Dumped dumped;
  const TemporaryDirectory out;
  const fs::path json = out / "numbers.json";
  const std::string text = printed({"inspect", dumped.path(), "--json", json.string()});
  EXPECT_THAT(text, HasSubstr("2 steps (10 to 20), 2 workers of 1300 elements in 2 tensors"));
  const nlohmann::json numbers = nlohmann::json::parse(read_file_text(json));
  EXPECT_GE(numbers["codecs"].size(), 10u);
  for (const auto& row : numbers["codecs"]) {
    EXPECT_TRUE(row.contains("mean_vnmse"));
    EXPECT_EQ(row["residual_norms"].size(), row["memory"] == "none" ? 0u : 2u) << row["codec"];
    EXPECT_THAT(text, HasSubstr(row["codec"].get<std::string>()));
  }
}

TEST(CodecCommand, InspectsAFileWithTheCodecsThatAreNamed) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("g.npy", npy_of(gaussian(500), {500})).string();
  const std::string text = printed({"inspect", "--codec", "qsgd:bits=2", file, "--codec=sign", "--per_tensor"});
  EXPECT_THAT(text, HasSubstr("1 worker of 500 elements in 1 tensor\n"));
  EXPECT_THAT(text, HasSubstr("\ntensor [500], 500 elements\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("ternary")));
}

TEST(CodecCommand, MemoriesAreThoseThatAreAskedFor) {
  const Dumped dumped;
  const std::vector<std::string> inspect = {"inspect", dumped.path(), "--codec", "fp32", "--codec", "qsgd:bits=2"};
  EXPECT_THAT(printed(inspect), ::testing::Not(HasSubstr("keeps")));
  using testing::operator+;
  const std::string text = printed(inspect + std::vector<std::string>{"--codec_memory", "momentum"});
  EXPECT_THAT(text, HasSubstr("qsgd:bits=2 keeps momentum:decay=0.9"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("fp32 keeps")));
}

TEST(CodecCommand, EncodesAndDecodes) {
  const TemporaryDirectory folder;
  const std::vector<float> g = gaussian(1000);
  const std::string in = folder.write("g.npy", npy_of(g, {10, 100})).string();
  const std::string encoded = (folder / "g.tgrd").string(), out = (folder / "d.npy").string();
  EXPECT_EQ(printed({"encode", in, encoded, "--codec", "fp32"}), "");
  EXPECT_EQ(printed({"decode", encoded, out}), "");
  EXPECT_TRUE(read_file_text(out) == read_file_text(in));
  printed({"encode", in, encoded, "--codec", "sign", "--seed", "3", "--step", "4", "--worker", "5"});
  EXPECT_THAT(read_file_text(encoded), HasSubstr("\"num_nodes\":6,\"seed\":3,\"step\":4,\"worker\":5"));
  printed({"decode", encoded, out});
  const GradientFile decoded = read_gradient_file(out);
  for (std::size_t i = 0; i < g.size(); ++i) EXPECT_EQ(std::signbit(decoded.workers[0].data()[i]), std::signbit(g[i]));
}

TEST(CodecCommand, EncodesTheWorkerThatIsAskedFor) {
  const Dumped dumped;
  const std::string in = dumped.path() + "/step-0000000010.safetensors";
  const TemporaryDirectory folder;
  const std::string encoded = (folder / "g.tgrd").string(), out = (folder / "d.safetensors").string();
  printed({"encode", in, encoded, "--codec", "fp32", "--worker", "1"});
  printed({"decode", encoded, out});
  const GradientFile all = read_gradient_file(in), one = read_gradient_file(out);
  EXPECT_EQ(one.layout.fingerprint(), all.layout.fingerprint());
  EXPECT_TRUE(std::ranges::equal(one.workers[0].span(), all.workers[1].span()));
  expect_error(kExitUsage, {"decode", encoded, (folder / "d.npy").string()}, {"2 tensors", ".safetensors"});
}

TEST(CodecCommand, AnswersQuestions) {
  for (const std::vector<std::string>& question :
       {std::vector<std::string>{"--help"}, {"inspect", "--help"}, {"encode", "-h"}, {"decode", "--help"}}) {
    std::istringstream lines(printed(question));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
  EXPECT_THAT(printed({"inspect", "--help"}), HasSubstr("FILE|FOLDER"));
  EXPECT_THAT(printed({"--version"}), ::testing::StartsWith("terngrad_codec "));
  EXPECT_THAT(printed({"--list_codecs"}), HasSubstr("ternary"));
}

TEST(CodecCommand, WhatCannotBeHonouredIsAUsageError) {
  const Dumped dumped;
  const std::string file = dumped.path() + "/step-0000000010.safetensors", out = dumped.path() + "/out.tgrd";
  for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{}, {"inspect, encode, decode"}},
           {{"compare"}, {"'compare'", "inspect, encode, decode"}},
           {{"inspect"}, {"FILE|FOLDER is missing"}},
           {{"inspect", file, "another"}, {"'another'"}},
           {{"inspect", file, "--codec", "nothing"}, {"--codec nothing"}},
           {{"inspect", file, "--codec", "qsgd:bits=3"}, {"--codec qsgd:bits=3", "2, 4, 8"}},
           {{"inspect", file, "--codec_memory", "all"}, {"--codec_memory all", "none, ef"}},
           {{"inspect", file, "--codec", "signsgd", "--codec_memory", "ef"}, {"--codec signsgd"}},
           {{"inspect", file, "--json", "/nowhere/x.json"}, {"--json /nowhere/x.json"}},
           {{"encode", file}, {"OUT is missing", "IN OUT"}},
           {{"encode", file, out}, {"--codec: is missing"}},
           {{"encode", file, out, "--codec", "nothing"}, {"--codec nothing"}},
           {{"encode", dumped.path(), out, "--codec", "fp32"}, {"is a folder"}},
           {{"encode", file, out, "--codec", "fp32", "--num_nodes", "3"}, {"--num_nodes 3", "accepted: 0, 2"}},
           {{"encode", file, out, "--codec", "fp32", "--worker", "2"}, {"--worker 2", "0 to 1"}},
           {{"encode", file, out, "--codec", "fp32", "--step", "1099511627776"}, {"--step"}},
           {{"decode", file, "out.bin"}, {"out.bin", ".npy or .safetensors"}},
       }) {
    expect_error(kExitUsage, arguments, words);
  }
  EXPECT_FALSE(fs::exists(out));
}

TEST(CodecCommand, FilesThatCannotBeReadAreFailures) {
  const Dumped dumped;
  expect_error(kExitFailure, {"inspect", dumped.path() + "/none.npy"}, {"none.npy", "does not exist"});
  expect_error(kExitFailure, {"decode", dumped.path() + "/step-0000000010.safetensors", "out.npy"}, {"no .tgrd file"});
  const TemporaryDirectory empty;
  expect_error(kExitFailure, {"inspect", empty.path().string()}, {"--dump_gradients"});
  // The other file is valid.
  testing::write_tensors(dumped.folder / "step-30.safetensors", {{"worker-0000/weights", {2}, {1, INFINITY}}});
  expect_error(kExitFailure, {"inspect", dumped.path()}, {"step-30.safetensors", "'weights'", "NaN, infinity"});
  testing::write_tensors(dumped.folder / "step-30.safetensors", {{"worker-0000/weights", {2}, {1, 2}}});
  expect_error(kExitFailure, {"inspect", dumped.path()}, {"step-30.safetensors' has other tensors"});
}

}  // namespace
}  // namespace terngrad::codec_command_test
