// Parses and validates options as terngrad_train does.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/options/dataset_recipes.h"
#include "trainers/options/train_option_checks.h"
#include "trainers/options/train_options.h"

namespace terngrad::testing {

/// Parses a command line (without program name) and applies the defaults of its data set.
inline void parse(OptionSet& options, TrainOptions& o, const std::vector<std::string>& arguments) {
  declare_train_options(options, o);
  std::vector<const char*> argv = {"terngrad_train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  options.parse(static_cast<int>(argv.size()), argv.data());
  apply_dataset_defaults(options, o);
}

inline TrainOptions accept(const std::vector<std::string>& arguments) {
  TrainOptions o;
  OptionSet options("test");
  parse(options, o, arguments);
  check_train_options(options, o);
  return o;
}

/// Error message of a command line that must be refused; checks that it is one line.
inline std::string refuse(const std::vector<std::string>& arguments) {
  SCOPED_TRACE(::testing::PrintToString(arguments));
  const std::string message = message_of<UsageError>([&] { accept(arguments); });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

struct Refusal {
  std::vector<std::string> arguments;
  std::vector<std::string> said;  // words of the message: option, value, accepted values
};

inline void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const std::string message = refuse(refusal.arguments);
    for (const std::string& words : refusal.said) EXPECT_THAT(message, ::testing::HasSubstr(words));
  }
}

inline void expect_accepted(const std::vector<std::vector<std::string>>& command_lines) {
  for (const std::vector<std::string>& arguments : command_lines) {
    EXPECT_NO_THROW(accept(arguments)) << ::testing::PrintToString(arguments);
  }
}

}  // namespace terngrad::testing
