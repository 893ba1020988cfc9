#include "trainers/launch/out_of_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::out_of_memory_test {
namespace {

using testing::message_of;

TEST(SayWhenOutOfMemory, NamesWhatThereWasNoMemoryFor) {
  EXPECT_EQ(message_of<Error>([] { say_when_out_of_memory("counting", [] { throw std::bad_alloc(); }); }),
            "out of memory while counting");
}

TEST(SayWhenOutOfMemory, PassesResultsAndOtherErrorsOn) {
  EXPECT_EQ(*say_when_out_of_memory("counting", [] { return std::make_unique<int>(3); }), 3);
  EXPECT_EQ(message_of<DataError>([] { say_when_out_of_memory("counting", [] { throw DataError("file"); }); }), "file");
}

}  // namespace
}  // namespace terngrad::out_of_memory_test
