#include "trainers/commands/records_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/datasets/image_files.h"
#include "tests/datasets/record_files.h"
#include "tests/trainers/command_runs.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::records_command_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

CommandOutcome records(const std::vector<std::string>& arguments) {
  return testing::run_command("terngrad_records", run_records, arguments);
}

std::string printed(const std::vector<std::string>& arguments) {
  const CommandOutcome outcome = records(arguments);
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  return outcome.out;
}

void expect_error(int exit_code, const std::vector<std::string>& arguments, const std::string& words) {
  const CommandOutcome outcome = records(arguments);
  EXPECT_EQ(outcome.exit_code, exit_code) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, AllOf(::testing::StartsWith("terngrad_records: error: "), HasSubstr(words)));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
}

/// Folders with images of two classes.
class RecordsCommand : public ::testing::Test {
 protected:
  RecordsCommand() {
    for (const char* subset : {"train", "test"}) {
      for (const char* name : {"cat", "dog"}) {
        fs::create_directories(folder_ / "images" / subset / name);
        for (int i = 0; i < 6; ++i) {
          const std::string png = encode_png(plain_image(20, 30, 3, 20 * i));
          std::ofstream(folder_ / "images" / subset / name / (std::to_string(i) + ".png"), std::ios::binary) << png;
        }
      }
    }
  }
  std::string images() const { return (folder_ / "images").string(); }
  std::string out() const { return (folder_ / "records").string(); }
  CommandOutcome build() const {
    return records({"build", "--input", images(), "--out", out(), "--train_shards", "3", "--test_shards=1"});
  }
  TemporaryDirectory folder_;
};

TEST_F(RecordsCommand, BuildsSmallerImages) {
  const std::string raw = (folder_ / "raw").string();
  const std::vector<std::string> smaller = {"build",           "--input",  images(), "--train_shards=2",
                                            "--test_shards=1", "--size=16"};
  const auto build_to = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = smaller;
    arguments.insert(arguments.end(), {"--out", folder});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return records(arguments);
  };
  EXPECT_EQ(build_to(out(), {}).exit_code, kExitSuccess);
  EXPECT_EQ(build_to(raw, {"--raw"}).exit_code, kExitSuccess);
  for (const std::string& folder : {out(), raw}) {
    EXPECT_THAT(printed({"show", folder}),
                AllOf(HasSubstr("height         16\n"), HasSubstr("width          24\n")));  // resized from 20 x 30
    EXPECT_THAT(printed({"show", folder}), HasSubstr(folder == raw ? " bytes, raw" : " bytes, JPEG"));
    EXPECT_THAT(printed({"check", folder, "--decode"}), HasSubstr("0 damaged"));
  }
  expect_error(kExitUsage, {"build", "--input", images(), "--out", out(), "--raw"}, "--raw");
  expect_error(kExitUsage, {"build", "--input", images(), "--out", out(), "--quality=90"}, "--quality");
  EXPECT_THAT(build_to(raw, {"--raw", "--quality=90"}).err, HasSubstr("--quality"));
  EXPECT_THAT(build_to(out(), {"--from=mnist"}).err, HasSubstr("--size"));
}

TEST_F(RecordsCommand, BuildsWhatATrainingReads) {
  const CommandOutcome outcome = build();
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("train: 3 of 3 shards"), HasSubstr("validation: 1 of 1 shards")));
  const CommandOutcome trained =
      testing::train({"--dataset",    "records", "--data_dir",     out(), "--train_dir", (folder_ / "run").string(),
                      "--image_size", "32",      "--batch_size",   "4",   "--max_steps", "2",
                      "--threads",    "1",       "--grad_bits",    "1",   "--num_nodes", "2",
                      "--shuffle",    "window",  "--label_offset", "1",   "--augment",   "off"});
  EXPECT_EQ(trained.exit_code, kExitSuccess) << ::testing::PrintToString(trained);
  const CommandOutcome evaluated =
      testing::eval({"--checkpoint_dir", (folder_ / "run").string(), "--data_dir", out(), "--threads", "1"});
  EXPECT_EQ(evaluated.exit_code, kExitSuccess) << ::testing::PrintToString(evaluated);
  // The second time all shards exist.
  EXPECT_THAT(build().err, HasSubstr("train: 3 of 3 shards\n"));
}

TEST_F(RecordsCommand, EvaluationReadsTrainingImagesAsTheRunDid) {
  build();
  // With equal parameters: those of step 0.
  const auto evaluated = [&](const std::string& augment) {
    const std::string run = (folder_ / augment).string();
    testing::train({"--dataset", "records", "--data_dir", out(), "--train_dir", run, "--image_size", "32",
                    "--batch_size", "4", "--max_steps", "0", "--threads", "1", "--augment", augment});
    return testing::eval({"--checkpoint_dir", run, "--data_dir", out(), "--threads", "1", "--subset", "train"}).out;
  };
  const std::string augmented = evaluated("on");
  EXPECT_THAT(augmented, HasSubstr("[12 examples]"));
  EXPECT_NE(augmented, evaluated("off"));
}

TEST_F(RecordsCommand, LooksAtRecords) {
  build();
  EXPECT_THAT(printed({"check", out(), "--decode"}),
              AllOf(HasSubstr("train: 12 records good, 0 damaged"), HasSubstr("validation: 12 records good")));
  EXPECT_THAT(printed({"stats", out(), "--subset", "test"}),
              AllOf(HasSubstr("validation: 12 records in 1 shards"), HasSubstr("label    0         6 records  cat"),
                    ::testing::Not(HasSubstr("train"))));
  const fs::path image = folder_ / "image.png";
  const std::string text = printed({"show", out(), "--record", "5", "--image", image.string()});
  EXPECT_THAT(text, AllOf(HasSubstr("train-00001-of-00003, record 1 at byte"), HasSubstr("image/height"),
                          HasSubstr("image/filename")));
  EXPECT_TRUE(read_file_text(image).starts_with("\x89PNG"));
  EXPECT_THAT(printed({"index", out()}), HasSubstr("train.index: 12 records"));
  expect_error(kExitUsage, {"show", out(), "--record", "12"}, "--record 12: there are 12 records; accepted: 0 to 11");
}

TEST_F(RecordsCommand, FindsAndLeavesOutDamage) {
  build();
  damage(fs::path(out()) / "train-00001-of-00003", 60);
  const CommandOutcome outcome = records({"check", out()});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("train-00001-of-00003"), HasSubstr("11 records good, 1 damaged")));
  const std::string clean = (folder_ / "clean").string();
  EXPECT_THAT(printed({"copy", out(), clean, "--without-bad"}), HasSubstr("train: 11 records copied, 1 damaged"));
  EXPECT_THAT(printed({"check", clean}), HasSubstr("train: 11 records good, 0 damaged"));
  EXPECT_EQ(read_file_text(fs::path(clean) / "labels.txt"), "0:cat\n1:dog\n");
  expect_error(kExitUsage, {"copy", out(), clean}, "--without-bad: must be given");
}

TEST_F(RecordsCommand, MistakesAreNamed) {
  expect_error(kExitUsage, {}, "a command is missing; accepted: build, index");
  expect_error(kExitUsage, {"bild"}, "unknown command 'bild'");
  expect_error(kExitUsage, {"build", "--out", out()}, "--input: must name");
  expect_error(kExitUsage, {"build", "--input", images()}, "--out: must name");
  expect_error(kExitUsage, {"build", "--input", images() + "x", "--out", out()}, "there is no such folder");
  expect_error(kExitUsage, {"build", "--input", images(), "--out", out(), "--from", "imagenet"}, "--labels: must name");
  expect_error(kExitUsage, {"build", "--input", images(), "--out", out(), "--boxes", "b.csv"},
               "--boxes b.csv: needs --from imagenet");
  expect_error(kExitUsage, {"build", "--input", images(), "--out", out(), "--from", "mnist", "--seed", "2"},
               "--seed 2: needs");
  expect_error(kExitFailure, {"build", "--input", images(), "--out", out()},
               "12 images, which do not fill 1024 shards");
  expect_error(kExitFailure, {"check", images()}, "has no shards of the training subset");
  EXPECT_THAT(printed({"--help"}), HasSubstr("copies all records but the damaged ones"));
  EXPECT_THAT(printed({"build", "--help"}), HasSubstr("--train_shards"));
  EXPECT_THAT(printed({"--version"}), HasSubstr("terngrad_records"));
}

}  // namespace
}  // namespace terngrad::records_command_test
