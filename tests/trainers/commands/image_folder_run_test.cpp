// Training and evaluation on --dataset folder with damaged images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/datasets/image_files.h"
#include "tests/trainers/command_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::image_folder_run_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using testing::eval;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::TemporaryDirectory;
using testing::train;
using testing::operator+;

/// Two classes, four training and four test images of 16 x 16 each, JPEG and PNG; a run of three steps.
class ImageFolderRun : public ::testing::Test {
 protected:
  ImageFolderRun() {
    for (const char* subset : {"train", "test"}) {
      for (const char* name : {"cat", "dog"}) {
        const fs::path folder = data_ / subset / name;
        fs::create_directories(folder);
        for (int i = 0; i < 4; ++i) {
          const bool is_png = i % 2 == 0;
          write(folder / (std::to_string(i) + (is_png ? ".png" : ".jpg")), is_png ? a_png() : a_jpeg());
        }
      }
    }
  }
  static Bytes a_png() { return png(std::vector<Bytes>(16, counting_bytes(3 * 16)), 16); }
  static Bytes a_jpeg() { return jpeg(counting_bytes(3 * 16 * 16), 16, 16); }
  static void write(const fs::path& path, const Bytes& content) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  }
  /// Truncate an image: its last pixels are missing, or all except the beginning of its header.
  static void damage_pixels(const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 30); }
  static void damage_header(const fs::path& path) { fs::resize_file(path, 20); }

  fs::path run() const { return folder_ / "run"; }
  CommandOutcome train_run(const std::vector<std::string>& more = {}) const {
    return train(std::vector<std::string>{"--dataset", "folder", "--data_dir", data_.string(), "--train_dir",
                                          run().string(), "--image_size", std::to_string(image_size_), "--threads", "1",
                                          "--batch_size", "4", "--max_steps", "3", "--save_iter", "2"} +
                 more);
  }
  CommandOutcome eval_run() const {
    return eval({"--checkpoint_dir", run().string(), "--data_dir", data_.string(), "--threads", "1"});
  }

  TemporaryDirectory folder_;
  fs::path data_ = folder_ / "data";
  int image_size_ = 16;
};

/// Matches the error message of a damaged image: one line, after earlier output.
auto names_damaged(const fs::path& path, const char* format) {
  return HasSubstr("error: [folder] '" + path.string() + "': expected an intact " + format + " image, found: ");
}

TEST_F(ImageFolderRun, TrainsAndEvaluates) {
  const CommandOutcome outcome = train_run();
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("[8 examples]"));
  EXPECT_THAT(eval_run().out, HasSubstr("[8 examples]"));
}

TEST_F(ImageFolderRun, ImageSizeZeroIsRefusedWithTheRange) {
  image_size_ = 0;
  const CommandOutcome outcome = train_run();
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("image_size"), HasSubstr("1 to 1024"), HasSubstr("got 0")));
  EXPECT_FALSE(fs::exists(run()));
}

TEST_F(ImageFolderRun, BrokenTestHeaderIsFoundBeforeTheFirstStep) {
  for (const auto& [name, format] : {std::pair{"test/cat/2.png", "PNG"}, {"test/dog/1.jpg", "JPEG"}}) {
    const std::string before = read_file_text(data_ / name);
    damage_header(data_ / name);
    const CommandOutcome outcome = train_run();
    EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.last_error_line(), names_damaged(data_ / name, format));
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(fs::exists(run()));
    write(data_ / name, {before.begin(), before.end()});
  }
}

TEST_F(ImageFolderRun, BrokenTestPixelsAreFoundAtTheEvaluationAndCostNoStep) {
  for (const auto& [name, format] : {std::pair{"test/cat/2.png", "PNG"}, {"test/dog/1.jpg", "JPEG"}}) {
    fs::remove_all(run());
    const std::string before = read_file_text(data_ / name);
    damage_pixels(data_ / name);
    const CommandOutcome outcome = train_run();
    EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.last_error_line(),
                AllOf(names_damaged(data_ / name, format),
                      HasSubstr("continue from " + checkpoint_path(run(), 3).string() + " with --resume")));
    const std::string trained = read_file_text(checkpoint_path(run(), 3));
    // After a repair, only the evaluation is missing.
    write(data_ / name, {before.begin(), before.end()});
    const CommandOutcome resumed = train_run({"--resume"});
    EXPECT_EQ(resumed.exit_code, kExitSuccess) << ::testing::PrintToString(resumed);
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("resumed after step 3"), HasSubstr("step 3 test top-1 = ")));
    EXPECT_EQ(read_file_text(checkpoint_path(run(), 3)), trained);
  }
}

TEST_F(ImageFolderRun, BrokenTestPixelsEndAnEvaluationInBetween) {
  damage_pixels(data_ / "test/cat/2.png");
  const CommandOutcome outcome = train_run({"--eval_steps", "2"});
  EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.last_error_line(), AllOf(names_damaged(data_ / "test/cat/2.png", "PNG"),
                                               HasSubstr("continue from " + checkpoint_path(run(), 2).string())));
}

TEST_F(ImageFolderRun, BrokenTrainingPixelsEndTheRun) {
  damage_pixels(data_ / "train/dog/2.png");
  const CommandOutcome outcome = train_run();
  EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.last_error_line(), names_damaged(data_ / "train/dog/2.png", "PNG"));
}

TEST_F(ImageFolderRun, TheEvaluatorNamesABrokenImage) {
  ASSERT_EQ(train_run().exit_code, kExitSuccess);
  const std::vector<std::pair<const char*, void (*)(const fs::path&)>> damages = {{"test/cat/2.png", damage_pixels},
                                                                                  {"test/cat/2.png", damage_header}};
  for (const auto& [name, damage] : damages) {
    damage(data_ / name);
    const CommandOutcome outcome = eval_run();
    EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, MatchesRegex("terngrad_eval: error: [^\n]*\n"));
    EXPECT_THAT(outcome.err, names_damaged(data_ / name, "PNG"));
  }
}

}  // namespace
}  // namespace terngrad::image_folder_run_test
