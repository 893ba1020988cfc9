#include "trainers/records/record_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/records/record_store.h"
#include "datasets/sets/record_images.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/record_files.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/records/shard_builder.h"

namespace terngrad::record_check_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Three shards of two records; the first record ends at byte `second`.
class Shards : public ::testing::Test {
 protected:
  Shards() {
    std::vector<std::vector<ImageExample>> shards;
    for (int s = 0; s < 3; ++s) shards.push_back({png_example(2 * s, 2 * s), png_example(2 * s + 1, 2 * s + 1)});
    write_shards(folder_, Subset::kTrain, shards);
  }
  fs::path shard(int number) const { return folder_.path() / shard_name(Subset::kTrain, number, 3); }
  RecordCheck check(bool decode = false) const {
    return check_records(find_shards(folder_.path(), Subset::kTrain), index_path(folder_.path(), Subset::kTrain),
                         decode, 2);
  }
  void make_index() const { make_index_file(folder_.path().string(), Subset::kTrain, 1); }
  TemporaryFolder folder_;
};

TEST_F(Shards, GoodRecordsAreCounted) {
  EXPECT_EQ(check().num_good, 6u);
  EXPECT_TRUE(check(true).bad.empty());
}

TEST_F(Shards, DamagedDataIsListedAndTheRestRead) {
  damage(shard(1), 60);  // in the first record's data
  for (const bool has_index : {false, true}) {
    const RecordCheck result = check();
    EXPECT_EQ(result.num_good, 5u) << has_index;
    ASSERT_EQ(result.bad.size(), 1u);
    EXPECT_EQ(result.bad[0].shard, 1u);
    EXPECT_EQ(result.bad[0].number, 0u);
    EXPECT_THAT(result.bad[0].problem, AllOf(HasSubstr(shard(1).string()), HasSubstr("checksum of its data")));
    if (!has_index) {
      // The index is of intact shards; the damaged shard has the same size.
      damage(shard(1), 60);
      make_index();
      damage(shard(1), 60);
    }
  }
}

TEST_F(Shards, ADamagedFrameEndsAShardWithoutAnIndex) {
  make_index();
  damage(shard(1), 3);  // the first record's length
  EXPECT_EQ(check().num_good, 5u);
  fs::remove(index_path(folder_.path(), Subset::kTrain));
  const RecordCheck result = check();
  EXPECT_EQ(result.num_good, 4u);
  ASSERT_EQ(result.bad.size(), 1u);
  EXPECT_THAT(result.bad[0].problem, HasSubstr("the rest of the shard was not read"));
}

TEST_F(Shards, CopiesOfAWorkersPartAreNumberedAnew) {
  const fs::path part = folder_.path() / "worker_1_of_2";
  fs::create_directory(part);
  for (int number : {1, 2}) fs::create_symlink(shard(number), part / shard(number).filename());
  const fs::path copy = folder_.path() / "copy";
  EXPECT_EQ(copy_good_records(part.string(), copy.string(), Subset::kTrain, false, 1).num_good, 4u);
  EXPECT_EQ(find_shards(copy, Subset::kTrain).back().filename(), "train-00001-of-00002");
}

TEST_F(Shards, ImagesAreLookedAt) {
  ImageExample wrong_size = png_example(1, 1), damaged = png_example(2, 2), foreign = png_example(3, 3);
  wrong_size.width = 11;
  damaged.encoded.resize(damaged.encoded.size() - 20);
  write_shards(folder_, Subset::kTest, {{wrong_size, damaged, png_example(0, 0)}});
  const auto test = [&](bool decode) {
    return check_records(find_shards(folder_.path(), Subset::kTest), folder_.path() / "none", decode, 1);
  };
  EXPECT_TRUE(test(false).bad.empty()) << "training takes the size from the image";
  ASSERT_EQ(test(true).bad.size(), 1u);
  EXPECT_EQ(test(true).bad[0].number, 1u);
}

TEST_F(Shards, AreGoodWhereTrainingTakesThem) {
  std::vector<ImageExample> records(7, png_example(1, 1));
  records[1].label = -1;
  records[2].label = kMaxImageLabel + 1;
  records[3].label = kMaxImageLabel;
  records[4].encoded.resize(records[4].encoded.size() - 20);
  records[5].width = 11;
  records[6].encoded = std::string(3 * 12 * 10, 'x');
  records[6].is_raw = true;
  for (const ImageExample& record : records) {
    write_shards(folder_, Subset::kTrain, {{record}, {png_example(0, 0)}, {png_example(1, 1)}});
    const DatasetOptions options{.data_dir = folder_.path().string(), .image_size = 8};
    std::vector<float> image(3 * 8 * 8);
    bool is_taken = true;
    try {
      make_records(options)->read(0, {}, image);
    } catch (const DataError&) {
      is_taken = false;
    }
    EXPECT_EQ(check(true).bad.empty(), is_taken) << record.label << " " << record.encoded.size();
  }
}

TEST_F(Shards, GoodOnesAreCopied) {
  damage(shard(1), 60);
  const testing::TemporaryDirectory out;
  const std::string to = (out / "clean").string();
  const RecordCheck result = copy_good_records(folder_.path().string(), to, Subset::kTrain, true, 2);
  EXPECT_EQ(result.num_good, 5u);
  EXPECT_EQ(result.bad.size(), 1u);
  const RecordStore store(to, Subset::kTrain, 1);
  ASSERT_EQ(store.size(), 5u);
  EXPECT_TRUE(fs::exists(fs::path(to) / "train.index"));
  const std::vector<int> expected = {0, 1, 3, 4, 5};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(store.read(i).label, expected[i]);
  EXPECT_THAT(data_error([&] { copy_good_records(folder_.path().string(), to, Subset::kTrain, false, 1); }),
              HasSubstr("holds shards of this subset already"));
}

TEST_F(Shards, ACopyReadsOnByTheIndex) {
  make_index();
  damage(shard(1), 3);  // the first record's length
  const testing::TemporaryDirectory out;
  EXPECT_EQ(copy_good_records(folder_.path().string(), (out / "c").string(), Subset::kTrain, false, 1).num_good, 5u);
}

TEST_F(Shards, ALabelThatTheIndexDoesNotSayIsListed) {
  make_index();
  write_shards(folder_, Subset::kTrain,
               {{png_example(0, 0), png_example(1, 1)},
                {png_example(9, 2), png_example(3, 3)},
                {png_example(4, 4), png_example(5, 5)}});
  const RecordCheck result = check();
  ASSERT_EQ(result.bad.size(), 1u);
  EXPECT_THAT(result.bad[0].problem, HasSubstr("expected 2 as the index says, found 9"));
}

TEST_F(Shards, ACopyThatCannotBeWrittenIsNoDamage) {
  // The error concerns the copy; no record counts as damaged.
  const testing::TemporaryDirectory out;
  std::filesystem::create_directories(out / "c");
  const struct rlimit before = [] {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    return limit;
  }();
  std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 100, .rlim_max = before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    copy_good_records(folder_.path().string(), (out / "c").string(), Subset::kTrain, false, 1);
  } catch (const DataError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_FALSE(std::filesystem::exists(out / "c/train-00000-of-00003"));
}

TEST_F(Shards, AShardWithoutAGoodRecordIsRefused) {
  damage(shard(1), 3);
  const testing::TemporaryDirectory out;
  EXPECT_THAT(
      data_error([&] { copy_good_records(folder_.path().string(), (out / "c").string(), Subset::kTrain, true, 1); }),
      AllOf(HasSubstr(shard(1).string()), HasSubstr("has no good record")));
}

TEST_F(Shards, AreCounted) {
  const RecordStatistics statistics = record_statistics(folder_.path().string(), Subset::kTrain, 1);
  EXPECT_EQ(statistics.num_shards, 3u);
  EXPECT_EQ(statistics.num_records, 6u);
  EXPECT_EQ(statistics.records_of_label.size(), 6u);
  EXPECT_EQ(statistics.num_bytes, fs::file_size(shard(0)) + fs::file_size(shard(1)) + fs::file_size(shard(2)));
  EXPECT_LE(statistics.min_bytes, statistics.median_bytes);
  EXPECT_LE(statistics.median_bytes, statistics.max_bytes);
}

TEST(RecordText, SaysWhatIsThere) {
  ImageExample example = png_example(7, 1);
  example.boxes = {{.x_min = 0.25f, .y_min = 0, .x_max = 1, .y_max = 0.5f}};
  example.synset = "n01440764";
  const std::string text = to_text("place", example);
  EXPECT_THAT(text, AllOf(HasSubstr("place\n"), HasSubstr("bytes, PNG"), HasSubstr("n01440764"),
                          HasSubstr("x 0.2500 to 1.0000, y 0.0000 to 0.5000")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("filename")));
}

}  // namespace
}  // namespace terngrad::record_check_test
