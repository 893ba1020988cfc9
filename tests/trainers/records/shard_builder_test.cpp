#include "trainers/records/shard_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "datasets/records/record_store.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/record_files.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::shard_builder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

class FakeImages final : public ImageSource {
 public:
  explicit FakeImages(std::size_t count, int first = 0) : count_(count), first_(first) {}
  std::size_t size() const override { return count_; }
  ImageExample example(std::size_t index) const override {
    ++num_read;
    if (static_cast<int>(index) == failing) throw DataError("image is damaged");
    return png_example(static_cast<std::int32_t>(index), first_ + static_cast<int>(index));
  }
  std::string name(std::size_t index) const override { return "image " + std::to_string(index); }
  std::string key(std::size_t index) const override { return std::to_string(first_ + static_cast<int>(index)); }
  mutable std::atomic<int> num_read = 0;
  int failing = -1;

 private:
  std::size_t count_;
  int first_;
};

ImageSources sources(std::size_t train, std::size_t test, bool is_shuffled = true) {
  return {.train = std::make_unique<FakeImages>(train),
          .test = test == 0 ? nullptr : std::make_unique<FakeImages>(test, 100),
          .names = {{0, "zero"}},
          .is_shuffled = is_shuffled};
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file_text(entry.path());
  }
  return files;
}

ShardBuild build_into(const TemporaryDirectory& folder, int num_threads = 1) {
  return {.folder = (folder / "out").string(), .train_shards = 4, .test_shards = 2, .num_threads = num_threads};
}

TEST(ShardBuilder, WritesEveryImageOnce) {
  const TemporaryDirectory folder;
  std::vector<BuildProgress> seen;
  build_shards(sources(23, 5), build_into(folder), [&](const BuildProgress& progress) { seen.push_back(progress); });
  const RecordStore store(folder / "out", Subset::kTrain, 1);
  ASSERT_EQ(store.size(), 23u);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const ImageExample example = store.read(i);
    EXPECT_EQ(example.encoded, png_example(0, static_cast<int>(example.label)).encoded);
    labels.push_back(example.label);
  }
  EXPECT_FALSE(std::ranges::is_sorted(labels));
  std::ranges::sort(labels);
  for (std::size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(labels[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(RecordStore(folder / "out", Subset::kTest, 1).size(), 5u);
  EXPECT_TRUE(fs::exists(folder / "out/train.index"));
  EXPECT_EQ(read_file_text(folder / "out/labels.txt"), "0:zero\n");
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[3].num_done, 4);
  EXPECT_EQ(seen[5].subset, Subset::kTest);
  EXPECT_GT(seen[5].bytes, 0u);
}

TEST(ShardBuilder, BytesDependOnSeedAndShardsAlone) {
  const TemporaryDirectory one, many, other;
  build_shards(sources(23, 5), build_into(one), {});
  build_shards(sources(23, 5), build_into(many, 3), {});
  EXPECT_EQ(files_in(one / "out"), files_in(many / "out"));
  ShardBuild build = build_into(other);
  build.seed = 7;
  build_shards(sources(23, 5), build, {});
  EXPECT_NE(files_in(one / "out").at("train-00000-of-00004"), files_in(other / "out").at("train-00000-of-00004"));
}

TEST(ShardBuilder, ASourceMayKeepItsOrder) {
  const TemporaryDirectory folder;
  build_shards(sources(9, 0, false), build_into(folder), {});
  const RecordStore store(folder / "out", Subset::kTrain, 1);
  for (std::size_t i = 0; i < store.size(); ++i) EXPECT_EQ(store.label(i), static_cast<std::int32_t>(i));
}

TEST(ShardBuilder, ContinuesAnInterruptedBuild) {
  const TemporaryDirectory whole, folder;
  build_shards(sources(23, 5), build_into(whole), {});
  ImageSources failing = sources(23, 5);
  auto images = std::make_unique<FakeImages>(23);
  images->failing = 11;
  failing.train = std::move(images);
  EXPECT_THAT(message_of<DataError>([&] { build_shards(failing, build_into(folder), {}); }), HasSubstr("damaged"));
  const std::size_t num_before = files_in(folder / "out").size();
  ASSERT_LT(num_before, files_in(whole / "out").size());
  ASSERT_FALSE(fs::exists(folder / "out/train.index"));
  // Existing shards are not written again.
  fs::remove(whole / "out/train-00002-of-00004");
  fs::remove(whole / "out/train.index");
  ImageSources again = sources(23, 5);
  build_shards(again, build_into(whole), {});
  const auto* train = dynamic_cast<const FakeImages*>(again.train.get());
  EXPECT_EQ(train->num_read, 6);  // floor(23 * 3 / 4) - floor(23 * 2 / 4)
  build_shards(sources(23, 5), build_into(folder), {});
  EXPECT_EQ(files_in(folder / "out"), files_in(whole / "out"));
}

TEST(ShardBuilder, AFolderWithOtherShardsIsRefused) {
  const TemporaryDirectory folder;
  build_shards(sources(23, 5), build_into(folder), {});
  EXPECT_THAT(message_of<DataError>([&] { build_shards(sources(22, 5), build_into(folder), {}); }),
              HasSubstr("another build"));
  ShardBuild build = build_into(folder);
  build.train_shards = 3;
  EXPECT_THAT(message_of<DataError>([&] { build_shards(sources(23, 5), build, {}); }), HasSubstr("another build"));
  fs::remove(folder / "out/build.txt");
  EXPECT_THAT(message_of<DataError>([&] { build_shards(sources(23, 5), build_into(folder), {}); }),
              HasSubstr("no build.txt says of what"));
}

TEST(ShardBuilder, NumbersOfShardsAreChecked) {
  const TemporaryDirectory folder;
  ShardBuild build = build_into(folder);
  build.test_shards = 0;
  EXPECT_THROW(build_shards(sources(23, 5), build, {}), InvalidArgument);
  build.test_shards = 6;
  EXPECT_THAT(message_of<DataError>([&] { build_shards(sources(23, 5), build, {}); }),
              HasSubstr("5 images, which do not fill 6 shards"));
}

TEST(ShardBuilder, MakesTheIndexOfForeignShards) {
  const TemporaryDirectory folder;
  build_shards(sources(23, 5), build_into(folder), {});
  const std::string index = read_file_text(folder / "out/train.index");
  fs::remove(folder / "out/train.index");
  EXPECT_EQ(make_index_file((folder / "out").string(), Subset::kTrain, 2), 23u);
  EXPECT_EQ(read_file_text(folder / "out/train.index"), index);
}

}  // namespace
}  // namespace terngrad::shard_builder_test
