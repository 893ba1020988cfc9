#include "datasets/formats/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/datasets/data_files.h"

#include <sys/stat.h>
#include <unistd.h>

namespace terngrad::input_file_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string refusal(const fs::path& path) {
  return data_error([&] { const InputFile file(path); });
}

/// Makes `folder` inaccessible during its lifetime: root becomes an unprivileged user.
class ClosedFolder {
 public:
  explicit ClosedFolder(const fs::path& folder) : folder_(folder), is_root_(::geteuid() == 0) {
    fs::permissions(folder_, fs::perms::none);
    if (is_root_) is_closed_ = ::seteuid(65534) == 0;
  }
  ~ClosedFolder() {
    if (is_root_ && is_closed_ && ::seteuid(0) != 0) std::abort();
    fs::permissions(folder_, fs::perms::owner_all);
  }
  ClosedFolder(const ClosedFolder&) = delete;
  ClosedFolder& operator=(const ClosedFolder&) = delete;
  bool is_closed() const { return is_closed_; }

 private:
  fs::path folder_;
  bool is_root_;
  bool is_closed_ = true;
};

TEST(InputFile, ReadsAllOrTheBeginning) {
  const TemporaryFolder folder;
  const Bytes content = counting_bytes(5000);
  const InputFile file(folder.write("a", content));
  EXPECT_EQ(file.path(), folder.path() / "a");
  EXPECT_EQ(file.num_bytes(), 5000u);
  EXPECT_EQ(file.read_all(), content);
  EXPECT_EQ(file.read_beginning(3), Bytes(content.begin(), content.begin() + 3));
  EXPECT_EQ(file.read_beginning(9000), content);
  EXPECT_EQ(InputFile(folder.write("empty", {})).read_all(), Bytes());
}

TEST(InputFile, WhatBecomesShorterIsRefused) {
  const TemporaryFolder folder;
  const InputFile file(folder.write("a", Bytes(100)));
  fs::resize_file(file.path(), 60);
  EXPECT_THAT(data_error([&] { file.read_all(); }), HasSubstr("/a' cannot be read: got 60 of 100 bytes"));
}

// Opening a pipe without a writer would block.
TEST(InputFile, WhatIsNoFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& path : {pipe, folder.path(), fs::path("/dev/zero")}) {
    EXPECT_EQ(refusal(path), "'" + path.string() + "' is not a file");
  }
}

TEST(InputFile, MissingFilesAndLinksToThemAreTold) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.path() / "none"), EndsWith("none' does not exist"));
  EXPECT_THAT(refusal(folder.write("a", {1}) / "below"), EndsWith("a/below' does not exist"));
  const fs::path link = folder.path() / "link";
  fs::create_symlink("none", link);
  EXPECT_THAT(refusal(link), EndsWith("link' is a symbolic link to something that does not exist"));
  EXPECT_THAT(data_error([&] { path_exists(link); }), HasSubstr("link'"));
  fs::remove(link);
  fs::create_symlink("a", link);
  EXPECT_EQ(InputFile(link).num_bytes(), 1u);
}

TEST(InputFile, TheSystemsReasonIsTold) {
  const TemporaryFolder folder;
  const fs::path loop = folder.path() / "loop";
  fs::create_symlink("loop", loop);
  EXPECT_THAT(refusal(loop), EndsWith("loop' cannot be opened: Too many levels of symbolic links"));
  EXPECT_THAT(data_error([&] { path_exists(loop); }), HasSubstr("Too many levels"));
  const fs::path file = folder.write("a", {1});
  const ClosedFolder closed(folder.path());
  if (!closed.is_closed()) GTEST_SKIP() << "this process cannot become another user";
  EXPECT_THAT(refusal(file), EndsWith("a' cannot be opened: Permission denied"));
  EXPECT_THAT(data_error([&] { is_folder(folder.path() / "below"); }), HasSubstr("Permission denied"));
}

TEST(PathExists, TellsFilesFoldersAndNothing) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a", {1});
  EXPECT_TRUE(path_exists(file));
  EXPECT_FALSE(is_folder(file));
  EXPECT_TRUE(path_exists(folder.path()));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(path_exists(folder.path() / "none"));
  EXPECT_FALSE(is_folder(folder.path() / "none"));
  EXPECT_FALSE(is_folder(file / "below"));
}

}  // namespace
}  // namespace terngrad::input_file_test
