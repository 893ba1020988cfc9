#include "trainers/io/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

TEST(Folder, StaysInItselfWhenItIsRenamedAndAnotherTakesItsName) {
  const TemporaryDirectory parent;
  fs::create_directory(parent / "run");
  const Folder folder(parent / "run");
  EXPECT_EQ(folder.path(), parent / "run");
  fs::rename(parent / "run", parent / "old");
  fs::create_directory(parent / "run");
  parent.write("run/theirs", "x");
  EXPECT_EQ(folder.path(), parent / "old");
  write_file_atomically(folder, "mine", "y");
  EXPECT_EQ(read_file_text(parent / "old/mine"), "y");
  EXPECT_THAT(folder.names(), ElementsAre("mine"));
  EXPECT_FALSE(folder.has("theirs"));
  EXPECT_FALSE(folder.remove("theirs"));
  EXPECT_TRUE(folder.remove("mine"));
  EXPECT_TRUE(fs::is_empty(parent / "old"));
  EXPECT_TRUE(fs::exists(parent / "run/theirs"));
}

TEST(Folder, KnowsWhetherANameIsStillThatOfAnOpenFile) {
  const TemporaryDirectory parent;
  const Folder folder(parent.path());
  parent.write("a", "1");
  const FileDescriptor file = folder.open("a", O_RDONLY);
  EXPECT_EQ(file.path(), parent / "a");
  EXPECT_TRUE(folder.leads_to("a", file));
  fs::rename(parent / "a", parent / "b");
  EXPECT_FALSE(folder.leads_to("a", file));
  parent.write("a", "1");
  EXPECT_FALSE(folder.leads_to("a", file));
  EXPECT_TRUE(folder.leads_to("b", file));
}

TEST(Folder, CreatesNoFileTwice) {
  const TemporaryDirectory parent;
  const Folder folder(parent.path());
  EXPECT_TRUE(folder.create("a", "a").has_value());
  EXPECT_FALSE(folder.create("a", "a").has_value());
}

TEST(Folder, ErrorsNameTheFileAndAFolderThatWasDeleted) {
  const TemporaryDirectory parent;
  EXPECT_THROW(Folder(parent / "none"), DataError);
  EXPECT_THROW(Folder(parent.write("file", "")), DataError);
  EXPECT_THAT(message_of<DataError>([&] { Folder::of(parent / "none/a"); }), HasSubstr((parent / "none/a").string()));
  fs::create_directory(parent / "run");
  const Folder folder(parent / "run");
  EXPECT_THAT(message_of<DataError>([&] { folder.open("a", O_RDONLY); }),
              AllOf(HasSubstr((parent / "run/a").string()), HasSubstr("No such file")));
  fs::remove(parent / "run");
  EXPECT_THAT(message_of<DataError>([&] { write_file_atomically(folder, "a", "x"); }),
              AllOf(HasSubstr((parent / "run/a").string()), HasSubstr("the folder was deleted")));
}

}  // namespace
}  // namespace terngrad::folder_test
