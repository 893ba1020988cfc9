#include "trainers/io/file_descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::file_descriptor_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

TEST(FileDescriptor, FullDeviceIsAnErrorWithFileAndReason) {
  const FileDescriptor full("/dev/full", O_WRONLY);
  const std::byte bytes[1] = {};
  EXPECT_EQ(message_of<DataError>([&] { full.write_all(bytes); }),
            std::string("cannot write '/dev/full': ") + std::strerror(ENOSPC));
}

TEST(FileDescriptor, MissingFileIsAnError) {
  EXPECT_THAT(message_of<DataError>([] { FileDescriptor("/none/a", O_RDONLY); }), HasSubstr("cannot open '/none/a'"));
}

TEST(FileDescriptor, MoveLeavesOneOwner) {
  const TemporaryDirectory folder;
  FileDescriptor first(folder / "a", O_WRONLY | O_CREAT);
  FileDescriptor second(std::move(first));
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): tests the moved-from state
  ASSERT_TRUE(second.is_open());
  first = std::move(second);
  EXPECT_TRUE(first.is_open());
  EXPECT_FALSE(second.is_open());
}

TEST(FileDescriptor, WritesAndTruncates) {
  const TemporaryDirectory folder;
  const FileDescriptor file(folder / "a", O_WRONLY | O_CREAT);
  const std::byte bytes[5] = {};
  file.write_all(bytes);
  EXPECT_EQ(file.num_bytes(), 5);
  file.truncate(2);
  EXPECT_EQ(file.num_bytes(), 2);
}

TEST(FileDescriptor, OneOwnerHasTheLock) {
  const TemporaryDirectory folder;
  const FileDescriptor other(folder.path(), O_RDONLY | O_DIRECTORY);
  {
    const FileDescriptor first(folder.path(), O_RDONLY | O_DIRECTORY);
    EXPECT_TRUE(first.try_lock());
    EXPECT_FALSE(other.try_lock());
  }
  EXPECT_TRUE(other.try_lock());
}

}  // namespace
}  // namespace terngrad::file_descriptor_test
