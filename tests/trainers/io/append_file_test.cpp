#include "trainers/io/append_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::append_file_test {
namespace {

using testing::TemporaryDirectory;

/// Limits the size of files that this process writes, like a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t num_bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_), 0);
    const struct rlimit small { num_bytes, old_.rlim_max };
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_), 0);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  struct rlimit old_ {};
  void (*old_handler_)(int);
};

TEST(AppendFile, AppendsToWhatIsThere) {
  const TemporaryDirectory folder;
  folder.write("f", "old,");
  AppendFile file(folder / "f", 0, OnWriteError::kThrow);
  file.append("one,");
  file.append("");
  file.append("two");
  EXPECT_EQ(read_file_text(folder / "f"), "old,one,two");
  EXPECT_EQ(file.path(), folder / "f");
}

TEST(AppendFile, RecordThatDoesNotFitIsTakenBackWhole) {
  const TemporaryDirectory folder;
  AppendFile file(folder / "f", 0, OnWriteError::kThrow);
  file.append("0123456");
  {
    const FileSizeLimit limit(10);
    EXPECT_THROW(file.append("abcdef"), DataError);
    EXPECT_EQ(read_file_text(folder / "f"), "0123456");
    file.append("789");
  }
  file.append("+");
  EXPECT_EQ(read_file_text(folder / "f"), "0123456789+");
}

TEST(AppendFile, KeepsRecordsInOrderUntilTheyCanBeWritten) {
  const TemporaryDirectory folder;
  AppendFile file(folder / "f", 0, OnWriteError::kKeep);
  file.append("01234");
  {
    const FileSizeLimit limit(10);
    EXPECT_NO_THROW(file.append("longer than the rest,"));
    EXPECT_NO_THROW(file.append("x"));
    EXPECT_THROW(file.sync(), DataError);
    EXPECT_EQ(read_file_text(folder / "f"), "01234");
  }
  file.append("y");
  EXPECT_EQ(read_file_text(folder / "f"), "01234longer than the rest,xy");
}

TEST(AppendFile, NothingFollowsAPartThatCannotBeTakenBack) {
  // A file that cannot shrink: undoing a partial write fails, now and later.
  const int sealed = ::memfd_create("sealed", MFD_ALLOW_SEALING);
  ASSERT_GE(sealed, 0);
  ASSERT_EQ(::fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(sealed);
  AppendFile file(path, 0, OnWriteError::kKeep);
  file.append("0123456");
  {
    const FileSizeLimit limit(10);
    file.append("abcdef");
    EXPECT_EQ(read_file_text(path), "0123456abc");
  }
  file.append("y");
  EXPECT_EQ(read_file_text(path), "0123456abc");
  EXPECT_THROW(file.sync(), DataError);
  ::close(sealed);
}

TEST(AppendFile, OneThatIsDeletedIsWrittenAgainWithAllThatItHeld) {
  const TemporaryDirectory folder;
  folder.write("f", "old,");
  AppendFile file(folder / "f", 0, OnWriteError::kThrow);
  file.append("one,");
  EXPECT_FALSE(file.sync());
  std::filesystem::remove(folder / "f");
  file.append("two,");
  EXPECT_TRUE(file.sync());
  file.append("three");
  EXPECT_FALSE(file.sync());
  EXPECT_EQ(read_file_text(folder / "f"), "old,one,two,three");
}

TEST(AppendFile, AnotherFileOfItsNameIsNotOverwritten) {
  const TemporaryDirectory folder;
  AppendFile file(folder / "f", 0, OnWriteError::kThrow);
  file.append("mine");
  std::filesystem::rename(folder / "f", folder / "g");
  folder.write("f", "theirs");
  EXPECT_NE(testing::message_of<DataError>([&] { file.sync(); }).find("another file"), std::string::npos);
  EXPECT_EQ(read_file_text(folder / "f"), "theirs");
  EXPECT_EQ(read_file_text(folder / "g"), "mine");
}

TEST(AppendFile, FlagsAreThoseOfOpen) {
  const TemporaryDirectory folder;
  folder.write("f", "");
  EXPECT_THROW(AppendFile(folder / "f", O_EXCL, OnWriteError::kThrow), DataError);
  EXPECT_THROW(AppendFile(folder / "none" / "f", 0, OnWriteError::kKeep), DataError);
}

}  // namespace
}  // namespace terngrad::append_file_test
