// Runs commands in the test's process and captures output and exit code; writes small MNIST files.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/idx.h"
#include "datasets/sets/synthetic.h"
#include "tests/support/device_of_tests.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/commands/eval_command.h"
#include "trainers/commands/train_command.h"
#include "trainers/launch/command_main.h"

namespace terngrad::testing {

struct CommandOutcome {
  int exit_code = -1;
  std::string out;
  std::string err;

  /// The last line of `err`.
  std::string last_error_line() const {
    const std::string text = err.substr(0, err.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
};

inline void PrintTo(const CommandOutcome& outcome, std::ostream* stream) {
  *stream << "exit code " << outcome.exit_code << "\nstdout: " << outcome.out << "\nstderr: " << outcome.err;
}

/// Runs a command as its main function does.
inline CommandOutcome run_command(const char* name, const std::function<int(int, char**)>& run,
                                  std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), name);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  CommandOutcome outcome;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  outcome.exit_code = command_main(name, static_cast<int>(arguments.size()), argv.data(), run);
  outcome.err = ::testing::internal::GetCapturedStderr();
  outcome.out = ::testing::internal::GetCapturedStdout();
  return outcome;
}

inline CommandOutcome train(const std::vector<std::string>& arguments) {
  return run_command("terngrad_train", run_train, on_device_of_tests(arguments));
}

inline CommandOutcome eval(const std::vector<std::string>& arguments) {
  return run_command("terngrad_eval", run_eval, on_device_of_tests(arguments));
}

inline std::vector<std::string> operator+(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

/// IDX file of `count` synthetic digits.
inline std::string idx_images(std::uint32_t count) {
  std::string bytes = big_endian(kIdxImagesMagic) + big_endian(count) + big_endian(28) + big_endian(28);
  std::vector<std::uint8_t> pixels(28 * 28);
  for (std::uint32_t i = 0; i < count; ++i) {
    draw_synthetic_digit(1, Subset::kTrain, i, pixels);
    bytes.append(pixels.begin(), pixels.end());
  }
  return bytes;
}
inline std::string idx_labels(std::uint32_t count) {
  std::string bytes = big_endian(kIdxLabelsMagic) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(synthetic_label(i));
  return bytes;
}

inline constexpr std::uint32_t kSmallTrainExamples = 48;
inline constexpr std::uint32_t kSmallTestExamples = 20;

/// A temporary folder with a small data set in the MNIST format.
class SmallMnist {
 public:
  SmallMnist() {
    folder_.write("train-images-idx3-ubyte", idx_images(kSmallTrainExamples));
    folder_.write("train-labels-idx1-ubyte", idx_labels(kSmallTrainExamples));
    folder_.write("t10k-images-idx3-ubyte", idx_images(kSmallTestExamples));
    folder_.write("t10k-labels-idx1-ubyte", idx_labels(kSmallTestExamples));
  }
  std::filesystem::path path() const { return folder_.path(); }
  const TemporaryDirectory& folder() const { return folder_; }

  /// Options of a small single-threaded run on this data set, with run directory `train_dir`.
  std::vector<std::string> options(const std::filesystem::path& train_dir) const {
    return {"--dataset",    "mnist",
            "--data_dir",   path().string(),
            "--train_dir",  train_dir.string(),
            "--image_size", "16",
            "--threads",    "1",
            "--batch_size", "8"};
  }

 private:
  TemporaryDirectory folder_;
};

/// Flips one bit in the middle of a file.
inline void damage(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
  file.seekg(middle);
  const int byte = file.get();
  file.seekp(middle);
  file.put(static_cast<char>(byte ^ 1));
}

}  // namespace terngrad::testing
