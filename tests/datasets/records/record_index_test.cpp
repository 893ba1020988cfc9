#include "datasets/records/record_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/image_example.h"
#include "datasets/formats/tfrecord.h"
#include "tests/datasets/data_files.h"

namespace terngrad::record_index_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::string record(std::int32_t label, std::size_t size) {
  return tfrecord(serialize_image_example({.encoded = "\xff\xd8" + std::string(size, 'x'), .label = label}));
}

class Index : public ::testing::Test {
 protected:
  Index() {
    shards_ = {folder_.write("train-00000-of-00002", as_bytes(record(3, 10) + record(0, 200) + record(1, 0))),
               folder_.write("train-00001-of-00002", as_bytes(record(7, 5)))};
  }
  std::string refusal(const std::string& bytes) {
    return data_error([&] { RecordIndex::from_bytes("some.index", as_bytes(bytes)); });
  }
  TemporaryFolder folder_;
  std::vector<std::filesystem::path> shards_;
};

TEST_F(Index, KnowsPlaceAndLabelOfEveryRecord) {
  const RecordIndex index = index_shards(shards_, 2);
  ASSERT_EQ(index.records().size(), 4u);
  EXPECT_EQ(index.num_shards(), 2u);
  EXPECT_EQ(index.records_of(0), (std::pair<std::size_t, std::size_t>(0, 3)));
  EXPECT_EQ(index.records_of(1), (std::pair<std::size_t, std::size_t>(3, 4)));
  EXPECT_EQ(index.shard_bytes(0), std::filesystem::file_size(shards_[0]));
  const std::vector<std::int32_t> labels = {3, 0, 1, 7};
  for (std::size_t i = 0; i < 4; ++i) {
    const RecordPlace& place = index.records()[i];
    EXPECT_EQ(place.label, labels[i]);
    EXPECT_EQ(index.shard_of(i), i < 3 ? 0u : 1u);
    const TfRecordReader reader(shards_[index.shard_of(i)]);
    std::vector<std::uint8_t> data;
    reader.read_at(place.offset, place.length, data);
    EXPECT_EQ(parse_image_example(data).label, labels[i]);
  }
}

TEST_F(Index, ComesBackFromItsFile) {
  const RecordIndex index = index_shards(shards_, 1);
  const std::string bytes = index.to_bytes();
  EXPECT_EQ(bytes.size(), 8u + 8 + 2 * 16 + 4 * 16 + 4);
  const auto path = folder_.write("train.index", as_bytes(bytes));
  const RecordIndex read = read_index_file(path, shards_);
  EXPECT_EQ(read.records(), index.records());
  EXPECT_EQ(read.records_of(1), index.records_of(1));
  EXPECT_EQ(read.to_bytes(), bytes);
}

TEST_F(Index, AnyDamageIsRefused) {
  const std::string bytes = index_shards(shards_, 1).to_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(refusal(bytes.substr(0, size)), "") << size;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(refusal(damaged), "") << at;
  }
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("'some.index' is truncated or has trailing bytes"));
  EXPECT_THAT(refusal("TGRECIDY" + bytes.substr(8)), HasSubstr("is no index of records"));
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_THAT(refusal(damaged), AllOf(HasSubstr("its checksum is another"), HasSubstr("terngrad_records index")));
  damaged = bytes;
  damaged[8] = 2;
  EXPECT_THAT(refusal(damaged), HasSubstr("has version 2, expected 1"));
  // 2^60 records in one shard must not be allocated.
  damaged = bytes;
  damaged[8 + 8 + 8 + 7] = 0x10;
  EXPECT_THAT(refusal(damaged), HasSubstr("is truncated"));
}

TEST_F(Index, RecordsLieBackToBack) {
  const auto message = [](const std::vector<RecordIndex::Shard>& shards) {
    return data_error([&] { RecordIndex("some.index", shards); });
  };
  const RecordPlace first{0, 4, 0};
  EXPECT_EQ(RecordIndex("x", {{20, {first}}, {40, {first, {20, 4, 1}}}}).records().size(), 3u);
  EXPECT_THAT(message({{40, {first, {21, 4, 1}}}}), HasSubstr("record 1 of shard 0: expected offset 20"));
  EXPECT_THAT(message({{20, {{0, 4, -1}}}}), HasSubstr("a label from 0"));
  EXPECT_THAT(message({{21, {first}}}), HasSubstr("its records have 20 bytes, expected 21"));
}

TEST_F(Index, OfOtherFilesIsRefused) {
  const auto path = folder_.write("train.index", as_bytes(index_shards(shards_, 1).to_bytes()));
  folder_.write("train-00001-of-00002", as_bytes(record(7, 6)));
  EXPECT_THAT(data_error([&] { read_index_file(path, shards_); }),
              AllOf(HasSubstr("train.index' is of other files"), HasSubstr("train-00001-of-00002' has ")));
  EXPECT_THAT(data_error([&] { read_index_file(path, {shards_[1]}); }), HasSubstr("train-00001-of-00002' has "));
  const auto other = folder_.write("train-00000-of-00003", as_bytes(record(7, 6)));
  EXPECT_THAT(data_error([&] { read_index_file(path, {other}); }), HasSubstr("it has 2 shards, there are 1"));
}

TEST_F(Index, OfAllShardsServesAPart) {
  const RecordIndex all = index_shards(shards_, 1);
  const auto path = folder_.write("train.index", as_bytes(all.to_bytes()));
  const RecordIndex part = read_index_file(path, {shards_[1]});
  EXPECT_EQ(part.records(), index_shards({shards_[1]}, 1).records());
  EXPECT_EQ(part.shard_bytes(0), all.shard_bytes(1));
}

TEST_F(Index, ARecordThatIsWrongIsNamed) {
  const std::string good = record(1, 3);
  const auto path = folder_.write("train-00000-of-00002", as_bytes(good + tfrecord("nothing like an Example \xff")));
  EXPECT_THAT(data_error([&] { index_shards(shards_, 2); }),
              AllOf(HasSubstr("'" + path.string() + "': record 1 at byte " + std::to_string(good.size())),
                    HasSubstr("expected a tf.train.Example")));
  folder_.write("train-00000-of-00002", as_bytes(record(kMaxImageLabel + 1, 3)));
  EXPECT_THAT(data_error([&] { index_shards(shards_, 2); }), HasSubstr("image/class/label: expected 0 to 1048575"));
}

}  // namespace
}  // namespace terngrad::record_index_test
