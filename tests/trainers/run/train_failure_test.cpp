#include "trainers/run/train_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::train_failure_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

template <class Caught, class Thrown>
std::string advised(const std::filesystem::path& folder, const Thrown& thrown) {
  return message_of<Caught>([&] {
    try {
      throw thrown;
    } catch (const std::exception&) {
      rethrow_with_advice(Folder(folder));
    }
  });
}

TEST(TrainFailure, EveryExceptionSaysHowToGoOn) {
  const TemporaryDirectory folder;
  folder.write("checkpoint-0000000012.safetensors", "x");
  const auto go_on = AllOf(HasSubstr("continue from "), HasSubstr("checkpoint-0000000012"), HasSubstr("--resume"));
  EXPECT_THAT(advised<Error>(folder.path(), DataError("disk")), AllOf(HasSubstr("disk"), go_on));
  EXPECT_THAT(advised<Error>(folder.path(), std::bad_alloc()), AllOf(HasSubstr("out of memory while training"), go_on));
  EXPECT_THAT(advised<Error>(folder.path(), std::filesystem::filesystem_error("gone", std::error_code())),
              AllOf(HasSubstr("gone"), go_on));
  // Commands exit with 2 for a UsageError.
  EXPECT_THAT(advised<UsageError>(folder.path(), UsageError("--x")), AllOf(HasSubstr("--x"), go_on));
}

TEST(TrainFailure, SaysThatThereIsNoCheckpoint) {
  const TemporaryDirectory folder;
  EXPECT_THAT(advised<Error>(folder.path(), std::bad_alloc()), HasSubstr("no checkpoint was saved yet"));
}

TEST(TrainFailure, NonfiniteGradientsNeedAnotherPolicy) {
  const TemporaryDirectory folder;
  EXPECT_THAT(
      advised<Error>(folder.path(), NonFiniteError("step 3")),
      AllOf(HasSubstr("step 3"), HasSubstr("same options stop there again"), HasSubstr("--on_nonfinite skip or zero")));
}

}  // namespace
}  // namespace terngrad::train_failure_test
