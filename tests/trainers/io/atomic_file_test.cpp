#include "trainers/io/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::atomic_file_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

std::ptrdiff_t num_entries(const fs::path& path) {
  return std::distance(fs::directory_iterator(path), fs::directory_iterator());
}

// Makes writes beyond `max_bytes` fail, like a full disk, during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t max_bytes) {
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    previous_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {max_bytes, previous_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }

 private:
  struct rlimit previous_ = {};
  void (*previous_handler_)(int);
};

TEST(AtomicFile, WritesAndReplaces) {
  const TemporaryDirectory folder;
  write_file_atomically(folder / "a", "first, the longer one");
  write_file_atomically(folder / "a", "second");
  EXPECT_EQ(read_file_text(folder / "a"), "second");
  EXPECT_EQ(num_entries(folder.path()), 1);
}

TEST(AtomicFile, JoinsPartsAndAllowsNone) {
  const TemporaryDirectory folder;
  const std::string first = "ab", second = "", third = "c";
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(first)), std::as_bytes(std::span(second)),
                                              std::as_bytes(std::span(third))};
  write_file_atomically(folder / "a", parts);
  EXPECT_EQ(read_file_text(folder / "a"), "abc");
  write_file_atomically(folder / "b", std::span<const std::span<const std::byte>>());
  write_file_atomically(Folder(folder.path()), "c", [&](const WritePiece& write) {
    for (const std::span<const std::byte> part : parts) write(part);
  });
  EXPECT_EQ(read_file_text(folder / "c"), read_file_text(folder / "a"));
  EXPECT_EQ(read_file_bytes(folder / "b").size(), 0u);
}

TEST(AtomicFile, FailedWriteKeepsTheOldFileAndLeavesNoTemporary) {
  const TemporaryDirectory folder;
  write_file_atomically(folder / "a", "old");
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message = message_of<DataError>([&] { write_file_atomically(folder / "a", std::string(5000, 'x')); });
  }
  EXPECT_THAT(message, HasSubstr("cannot write '" + (folder / "a").string() + "'"));
  EXPECT_THAT(message, HasSubstr(std::strerror(EFBIG)));
  EXPECT_EQ(read_file_text(folder / "a"), "old");
  EXPECT_EQ(num_entries(folder.path()), 1);
}

TEST(AtomicFile, MissingFolderIsAnErrorThatNamesTheFile) {
  const TemporaryDirectory folder;
  const std::string message = message_of<DataError>([&] { write_file_atomically(folder / "none/a", "x"); });
  EXPECT_THAT(message, HasSubstr((folder / "none/a").string()));
  EXPECT_THAT(message, HasSubstr(std::strerror(ENOENT)));
}

TEST(AtomicFile, TargetThatIsAFolderIsRefusedAndTheTemporaryRemoved) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "a");
  EXPECT_THROW(write_file_atomically(folder / "a", "x"), DataError);
  EXPECT_EQ(num_entries(folder.path()), 1);
}

TEST(AtomicFile, DevicesAndPipesStayWhatTheyAre) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  for (const fs::path& path : {folder / "pipe", folder / "link", fs::path("/dev/null")}) {
    EXPECT_THAT(message_of<DataError>([&] { write_file_atomically(path, "x"); }), HasSubstr("not a regular file"));
  }
  EXPECT_THAT(message_of<DataError>([&] { write_file_atomically(Folder(folder.path()), "pipe", "x"); }),
              HasSubstr("cannot write '" + (folder / "pipe").string() + "': not a regular file"));
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(num_entries(folder.path()), 2);
}

TEST(AtomicFile, WritesWhereALinkLeads) {
  const TemporaryDirectory folder;
  folder.write("old", "old");
  fs::create_symlink("old", folder / "link");
  fs::create_symlink("new", folder / "dangling");
  write_file_atomically(folder / "link", "x");
  write_file_atomically(folder / "dangling", "y");
  EXPECT_EQ(read_file_text(folder / "old"), "x");
  EXPECT_EQ(read_file_text(folder / "new"), "y");
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "dangling"));
  fs::create_symlink("loop", folder / "loop");
  EXPECT_THAT(message_of<DataError>([&] { write_file_atomically(folder / "loop", "x"); }), HasSubstr("symbolic links"));
  // Written by name in a folder, the link itself is replaced.
  write_file_atomically(Folder(folder.path()), "link", "z");
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file_text(folder / "old"), "x");
}

TEST(AtomicFile, SaysBeforehandWhatCannotBeWritten) {
  const TemporaryDirectory folder;
  write_file_atomically(folder / "old", "content");
  require_writable(folder / "old");
  require_writable(folder / "new");
  EXPECT_EQ(read_file_text(folder / "old"), "content");
  EXPECT_EQ(num_entries(folder.path()), 1);
  const auto refusal = [](const fs::path& path) { return message_of<DataError>([&] { require_writable(path); }); };
  EXPECT_THAT(refusal(folder / "nowhere" / "file"), HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("Is a directory"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(""), HasSubstr("Is a directory"));
}

TEST(AtomicFile, TemporaryOfAKilledWriterIsInTheWayOfNobody) {
  const TemporaryDirectory folder;
  folder.write(".a.0.tmp", "half");
  write_file_atomically(folder / "a", "whole");
  EXPECT_EQ(read_file_text(folder / "a"), "whole");
  EXPECT_EQ(read_file_text(folder / ".a.0.tmp"), "half");
}

TEST(AtomicFile, RemovesStaleTemporariesOnly) {
  const TemporaryDirectory folder;
  for (const char* name : {".a.0.tmp", ".b.17.tmp", ".a.tmp", "a.0.tmp", ".a.x.tmp", "a"}) folder.write(name, "x");
  EXPECT_EQ(remove_stale_temporaries(Folder(folder.path()), "a"), 1);
  EXPECT_FALSE(fs::exists(folder / ".a.0.tmp"));
  EXPECT_EQ(remove_stale_temporaries(Folder(folder.path())), 1);
  EXPECT_EQ(num_entries(folder.path()), 4);
}

TEST(AtomicFile, ReadRefusesFoldersDevicesAndMissingFiles) {
  const TemporaryDirectory folder;
  EXPECT_THROW(read_file_bytes(folder.path()), DataError);
  EXPECT_THROW(read_file_bytes("/dev/zero"), DataError);
  EXPECT_THAT(message_of<DataError>([&] { read_file_bytes(folder / "none"); }), HasSubstr("none"));
}

}  // namespace
}  // namespace terngrad::atomic_file_test
