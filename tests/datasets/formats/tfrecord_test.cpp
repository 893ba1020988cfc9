#include "datasets/formats/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/datasets/data_files.h"

namespace terngrad::tfrecord_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Bytes = std::vector<std::uint8_t>;

std::string hex(std::string_view data) {
  std::string text;
  for (const char c : data) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string text_of(const Bytes& data) { return {data.begin(), data.end()}; }

/// A reader of `file`, which must not read out of its bounds.
TfRecordReader reader_of(const std::string& file) {
  return {"file", file.size(), [file](std::uint64_t offset, std::span<std::uint8_t> bytes) {
            ASSERT_LE(offset + bytes.size(), file.size());
            std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(), bytes.begin());
          }};
}

std::vector<std::string> all_of(const std::string& file) {
  TfRecordReader reader = reader_of(file);
  std::vector<std::string> records;
  Bytes data;
  while (reader.next(data)) records.push_back(text_of(data));
  return records;
}

/// Message of the error of reading all records.
std::string refusal(const std::string& file) {
  try {
    all_of(file);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(TfRecord, GoldenBytes) {
  EXPECT_EQ(hex(tfrecord("")), "000000000000000029039807d8ea82a2");
  EXPECT_EQ(hex(tfrecord("123456789")), "090000000000000037f97139313233343536373839e5b08ac7");
  // 0xe3069283 is the CRC-32C of "123456789" (RFC 3720).
  EXPECT_EQ(masked_crc32c("123456789"), ((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u);
}

TEST(TfRecordReader, GivesRecordsBackInOrderWithTheirPlaces) {
  const std::vector<std::string> records = {"first", "", std::string(100000, 'x'), "last"};
  std::string file;
  std::vector<std::uint64_t> offsets;
  for (const std::string& record : records) {
    offsets.push_back(file.size());
    file += tfrecord(record);
  }
  TfRecordReader reader = reader_of(file);
  Bytes data;
  for (std::size_t i = 0; i < records.size(); ++i) {
    ASSERT_TRUE(reader.next(data));
    EXPECT_EQ(text_of(data), records[i]);
    EXPECT_EQ(reader.offset(), offsets[i]);
    EXPECT_EQ(reader.number(), i);
  }
  EXPECT_FALSE(reader.next(data));
  EXPECT_FALSE(reader.next(data)) << "nor later";
  reader.read_at(offsets[2], 100000, data);
  EXPECT_EQ(text_of(data), records[2]);
}

TEST(TfRecordReader, ReadsFiles) {
  const TemporaryFolder folder;
  const std::string file = tfrecord("one") + tfrecord("two");
  TfRecordReader reader(folder.write("records", Bytes(file.begin(), file.end())));
  Bytes data;
  ASSERT_TRUE(reader.next(data) && reader.next(data));
  EXPECT_EQ(text_of(data), "two");
  EXPECT_FALSE(reader.next(data));
  EXPECT_THROW(TfRecordReader(folder.path() / "none"), DataError);
}

TEST(TfRecordReader, RefusesAFileThatIsCutOffAnywhere) {
  const std::string file = tfrecord("first") + tfrecord("second");
  EXPECT_EQ(refusal(""), "'file' is empty, expected records");
  for (std::size_t bytes = 1; bytes < file.size(); ++bytes) {
    if (bytes == tfrecord("first").size()) continue;
    const bool is_second = bytes > tfrecord("first").size();
    EXPECT_THAT(refusal(file.substr(0, bytes)),
                AllOf(HasSubstr(is_second ? "'file', record 1 at byte 21: " : "'file', record 0 at byte 0: "),
                      HasSubstr("left of the file")))
        << bytes;
  }
}

TEST(TfRecordReader, RefusesAnyFlippedBit) {
  const std::string file = tfrecord("data");
  for (std::size_t byte = 0; byte < file.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      EXPECT_THAT(refusal(damaged),
                  HasSubstr(byte < 12 ? "the checksum of its length is wrong" : "the checksum of its data is wrong"))
          << byte << ", " << bit;
    }
  }
}

/// A record header with `length` and a valid checksum.
std::string header_of(std::uint64_t length) {
  std::string header;
  for (int i = 0; i < 8; ++i) header += static_cast<char>(length >> (8 * i) & 0xff);
  const std::uint32_t checksum = masked_crc32c(header);
  for (int i = 0; i < 4; ++i) header += static_cast<char>(checksum >> (8 * i) & 0xff);
  return header;
}

TEST(TfRecordReader, RefusesLengthsBeforeAnythingIsAllocated) {
  EXPECT_THAT(refusal(header_of(std::uint64_t{1} << 63) + "abcd"),
              HasSubstr("it has 9223372036854775808 bytes, accepted are at most 268435456"));
  EXPECT_THAT(refusal(header_of(kMaxTfRecordBytes) + "abcdef"),
              HasSubstr("it has 268435456 bytes, 2 are left of the file"));
}

TEST(TfRecordReader, SaysThatAFileIsCompressed) {
  EXPECT_THAT(refusal(std::string("\x1f\x8b\x08") + std::string(30, '\0')), HasSubstr("it looks like a gzip file"));
  EXPECT_THAT(refusal(std::string("\x78\x9c") + std::string(30, '\1')), HasSubstr("it looks like zlib data"));
}

TEST(TfRecordReader, RefusesWhatAnIndexSaysOtherwise) {
  const std::string file = tfrecord("first") + tfrecord("second");
  const TfRecordReader reader = reader_of(file);
  Bytes data;
  EXPECT_THAT([&] { reader.read_at(21, 7, data); },
              ThrowsMessage<DataError>(HasSubstr("it has 6 bytes, the index says 7")));
  EXPECT_THAT([&] { reader.read_at(20, 6, data); }, ThrowsMessage<DataError>(HasSubstr("checksum of its length")));
  EXPECT_THAT([&] { reader.read_at(1000, 6, data); }, ThrowsMessage<DataError>(HasSubstr("0 are left of the file")));
}

}  // namespace
}  // namespace terngrad::tfrecord_test
