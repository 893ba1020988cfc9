#include "datasets/records/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/datasets/data_files.h"

namespace terngrad::shards_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Shards : public ::testing::Test {
 protected:
  void touch(const std::vector<std::string>& names) {
    for (const std::string& name : names) folder_.write(name, {1});
  }
  std::vector<std::string> names(Subset subset) {
    std::vector<std::string> result;
    for (const auto& path : find_shards(folder_.path(), subset)) result.push_back(path.filename().string());
    return result;
  }
  std::string refusal(Subset subset = Subset::kTrain) {
    return data_error([&] { find_shards(folder_.path(), subset); });
  }
  TemporaryFolder folder_;
};

TEST_F(Shards, AreFoundInTheOrderOfTheirNumbers) {
  touch({"train-00002-of-00003", "train-00000-of-00003", "train-00001-of-00003", "validation-00000-of-00001",
         "train.index", "labels.txt", "trainer-00000-of-00001", "train-0-of-3", "train-00000-of-00003.bak"});
  EXPECT_THAT(names(Subset::kTrain),
              ElementsAre("train-00000-of-00003", "train-00001-of-00003", "train-00002-of-00003"));
  EXPECT_THAT(names(Subset::kTest), ElementsAre("validation-00000-of-00001"));
}

TEST_F(Shards, HaveTheNamesOfOtherTools) {
  touch({"flowers_train_00001-of-00002.tfrecord", "flowers_train_00000-of-00002.tfrecord", "test-mnist.tfrecord"});
  EXPECT_THAT(names(Subset::kTrain),
              ElementsAre("flowers_train_00000-of-00002.tfrecord", "flowers_train_00001-of-00002.tfrecord"));
  EXPECT_THAT(names(Subset::kTest), ElementsAre("test-mnist.tfrecord"));
}

TEST_F(Shards, MissingOnesAreNamed) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("has no shards of the training subset"), HasSubstr("train-00000-of-00008")));
  EXPECT_THAT(refusal(Subset::kTest), HasSubstr("no shards of the test subset: expected validation-00000-of-00008"));
  touch({"train-00000-of-00003", "train-00002-of-00003"});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("lacks shard 1 of 3"), HasSubstr("'train-00002-of-00003'")));
  touch({"train-00001-of-00003"});
  EXPECT_EQ(names(Subset::kTrain).size(), 3u);
  std::filesystem::remove(folder_.path() / "train-00002-of-00003");
  EXPECT_THAT(refusal(), HasSubstr("lacks shard 2 of 3: the last is 'train-00001-of-00003'"));
}

TEST_F(Shards, ThoseThatDoNotGoTogetherAreRefused) {
  touch({"train-00000-of-00002", "train-00001-of-00002", "train-00000-of-00003"});
  EXPECT_THAT(refusal(), HasSubstr("has shards of two kinds: 'train-00000-of-00002' and 'train-00000-of-00003'"));
  std::filesystem::remove(folder_.path() / "train-00000-of-00003");
  touch({"train-all.tfrecord"});
  EXPECT_THAT(refusal(), HasSubstr("shards of two kinds"));
  std::filesystem::remove(folder_.path() / "train-all.tfrecord");
  touch({"train-00005-of-00002"});
  EXPECT_THAT(refusal(), HasSubstr("train-00005-of-00002': expected shard 2 of 2, each once"));
  touch({"validation-a.tfrecord", "validation-b.tfrecord"});
  EXPECT_THAT(refusal(Subset::kTest), HasSubstr("validation-b.tfrecord': expected shard 1 of 1, each once"));
  EXPECT_THAT(data_error([] { find_shards("/no such folder", Subset::kTrain); }), HasSubstr("cannot be listed"));
}

TEST_F(Shards, APartMayLackSome) {
  for (const char* name : {"train-00002-of-00004", "train-00003-of-00004"}) folder_.write(name, {1});
  EXPECT_THAT(refusal(), HasSubstr("lacks shard 0 of 4"));
  const std::filesystem::path part = folder_.path() / "worker_1_of_2";
  std::filesystem::create_directory(part);
  const auto in_part = [&](Subset subset) {
    std::vector<std::string> found;
    for (const auto& path : find_shards(part / "", subset)) found.push_back(path.filename().string());
    return found;
  };
  for (const char* name : {"train-00002-of-00004", "train-00003-of-00004"}) {
    std::filesystem::copy_file(folder_.path() / name, part / name);
  }
  EXPECT_THAT(in_part(Subset::kTrain), ElementsAre("train-00002-of-00004", "train-00003-of-00004"));
  EXPECT_EQ(linked_folder(part), std::nullopt);
  EXPECT_FALSE(has_shards(part, Subset::kTest));
  folder_.write("worker_1_of_2/train-00004-of-00004", {1});
  EXPECT_THAT(data_error([&] { in_part(Subset::kTrain); }),
              HasSubstr("train-00004-of-00004': expected a number below 4"));
}

TEST_F(Shards, LinksLeadToAllOfTheTestSet) {
  touch({"train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"});
  const std::filesystem::path part = folder_.path() / "by hand";
  std::filesystem::create_directory(part);
  std::filesystem::create_symlink("../train-00001-of-00002", part / "train-00001-of-00002");
  EXPECT_EQ(find_shards(part, Subset::kTrain).size(), 1u);
  EXPECT_EQ(linked_folder(part), std::filesystem::canonical(folder_.path()));
  ASSERT_TRUE(has_shards(part, Subset::kTest));
  EXPECT_EQ(find_shards(part, Subset::kTest).front().filename(), "test-00000-of-00001");
  std::filesystem::remove(folder_.path() / "train-00001-of-00002");
  EXPECT_EQ(linked_folder(part), std::nullopt) << "a link that leads nowhere";
}

TEST(ShardNumber, IsThatOfTheName) {
  for (const char* name : {"a/train-00007-of-01024", "set_test_00007-of-01024.tfrecord"}) {
    EXPECT_EQ(shard_number(name).number, 7) << name;
    EXPECT_EQ(shard_number(name).num_shards, 1024) << name;
  }
  EXPECT_EQ(shard_number("train-all.tfrecord").num_shards, 1);
}

TEST(ShardName, HasFiveDigitsOrMore) {
  EXPECT_EQ(shard_name(Subset::kTrain, 7, 1024), "train-00007-of-01024");
  EXPECT_EQ(shard_name(Subset::kTest, 123456, 200000), "validation-123456-of-200000");
}

}  // namespace
}  // namespace terngrad::shards_test
