#include "datasets/records/record_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/datasets/record_files.h"

namespace terngrad::record_store_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

class Store : public ::testing::Test {
 protected:
  Store() {
    write_shards(folder_, Subset::kTrain,
                 {{png_example(3, 10), png_example(0, 20)}, {png_example(1, 30)}, {png_example(2, 40)}});
  }
  std::filesystem::path write_index() const {
    const RecordIndex index = index_shards(find_shards(folder_.path(), Subset::kTrain), 1);
    return folder_.write("train.index", as_bytes(index.to_bytes()));
  }
  TemporaryFolder folder_;
};

TEST_F(Store, ReadsRecordsWithAndWithoutAnIndexFile) {
  for (const bool has_index : {false, true}) {
    if (has_index) write_index();
    const RecordStore store(folder_.path(), Subset::kTrain, 2);
    ASSERT_EQ(store.size(), 4u);
    for (const std::size_t i : {3u, 0u, 2u, 1u}) {
      const ImageExample example = store.read(i);
      const int expected[] = {3, 0, 1, 2};
      EXPECT_EQ(example.label, expected[i]);
      EXPECT_EQ(store.label(i), expected[i]);
      EXPECT_EQ(example.encoded, png_example(0, 10 * static_cast<int>(i + 1)).encoded);
    }
    EXPECT_THAT(store.place(1), AllOf(HasSubstr("train-00000-of-00003, record 1 at byte "), HasSubstr("train")));
    EXPECT_THAT(store.place(2), HasSubstr("train-00001-of-00003, record 0 at byte 0"));
    EXPECT_THROW(store.read(4), InvalidArgument);
  }
}

TEST_F(Store, AWorkersLinksUseTheIndexBesideTheirTargets) {
  const std::filesystem::path index = write_index();
  const std::filesystem::path part = folder_.path() / "worker_1_of_2";
  std::filesystem::create_directory(part);
  std::filesystem::create_symlink("../train-00002-of-00003", part / "train-00002-of-00003");
  EXPECT_EQ(index_path_to_read(part, Subset::kTrain), std::filesystem::canonical(index));
  const RecordStore store(part, Subset::kTrain, 1);
  ASSERT_EQ(store.size(), 1u);
  EXPECT_EQ(store.read(0).label, 2);
  std::filesystem::copy_file(index, part / "train.index");
  EXPECT_EQ(index_path_to_read(part, Subset::kTrain), part / "train.index");
  EXPECT_EQ(RecordStore(part, Subset::kTrain, 1).size(), 1u);
}

TEST_F(Store, DamageIsRefusedByPlace) {
  write_index();
  const RecordStore store(folder_.path(), Subset::kTrain, 1);
  damage(folder_.path() / "train-00001-of-00003", 40);
  EXPECT_THAT(data_error([&] { store.read(2); }), AllOf(HasSubstr("train-00001-of-00003"), HasSubstr("checksum")));
  EXPECT_EQ(store.read(3).label, 2);
}

TEST_F(Store, AnIndexOfOtherRecordsIsRefused) {
  write_index();
  // A changed label in a shard of the same size is detected when the record is read.
  write_shards(folder_, Subset::kTrain,
               {{png_example(4, 10), png_example(0, 20)}, {png_example(1, 30)}, {png_example(2, 40)}});
  const RecordStore store(folder_.path(), Subset::kTrain, 1);
  EXPECT_THAT(data_error([&] { store.read(0); }),
              HasSubstr("record 0 at byte 0': image/class/label: expected 3 as the index says, found 4"));
  // A changed size is detected when the set is opened.
  write_shards(folder_, Subset::kTrain, {{png_example(3, 10)}, {png_example(1, 30)}, {png_example(2, 40)}});
  EXPECT_THAT(data_error([&] { RecordStore(folder_.path(), Subset::kTrain, 1); }), HasSubstr("terngrad_records index"));
}

TEST_F(Store, ALargeSetNeedsAnIndex) {
  const auto shard = folder_.path() / "train-00002-of-00003";
  std::filesystem::resize_file(shard, kMaxBytesWithoutIndex + 1);  // sparse
  EXPECT_THAT(data_error([&] { RecordStore(folder_.path(), Subset::kTrain, 1); }),
              AllOf(HasSubstr("train.index' does not exist"), HasSubstr("make the index once with terngrad_records")));
}

TEST(RecordStoreFiles, ManyShardsNeedFewDescriptors) {
  const TemporaryFolder folder;
  const std::size_t num_shards = RecordStore::kMaxOpenShards + 50;
  std::vector<std::vector<ImageExample>> shards(num_shards);
  for (std::size_t s = 0; s < num_shards; ++s) shards[s] = {png_example(static_cast<std::int32_t>(s), 1)};
  write_shards(folder, Subset::kTest, shards);
  const RecordStore store(folder.path(), Subset::kTest, 2);
  const auto num_open = [] {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
  };
  const std::size_t before = num_open();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < 3 * num_shards; i += 2) {
        EXPECT_EQ(store.read(i % num_shards).label, static_cast<std::int64_t>(i % num_shards));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(num_open(), before + RecordStore::kMaxOpenShards);
}

}  // namespace
}  // namespace terngrad::record_store_test
