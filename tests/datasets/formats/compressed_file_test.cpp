#include "datasets/formats/compressed_file.h"

#include "kernels/runtime/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/datasets/data_files.h"

namespace terngrad::compressed_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CompressedFile : public ::testing::Test {
 protected:
  /// Message of the DataError for file `name` with `content`.
  std::string refusal(const std::string& name, const Bytes& content) {
    return data_error([&] { read_data_file(folder_.write(name, content)); });
  }

  TemporaryFolder folder_;
  Bytes content_ = counting_bytes(100'000);
};

TEST_F(CompressedFile, PlainAndPackedGiveTheSameBytes) {
  EXPECT_EQ(read_data_file(folder_.write("a", content_)), content_);
  EXPECT_EQ(read_data_file(folder_.write("a.gz", gzip(content_))), content_);
  EXPECT_EQ(read_data_file(folder_.write("a.xz", xz(content_))), content_);
}

TEST_F(CompressedFile, EveryLengthSurvives) {
  for (std::size_t length = 0; length < 70; ++length) {
    const Bytes content = counting_bytes(length);
    EXPECT_EQ(read_data_file(folder_.write("a", content)), content);
    EXPECT_EQ(read_data_file(folder_.write("a.gz", gzip(content))), content);
    EXPECT_EQ(read_data_file(folder_.write("a.xz", xz(content))), content);
  }
}

TEST_F(CompressedFile, HighlyCompressedContentUnpacks) {
  const Bytes zeros(3'000'000, 0);
  EXPECT_EQ(read_data_file(folder_.write("zeros.gz", gzip(zeros))), zeros);
  EXPECT_EQ(read_data_file(folder_.write("zeros.xz", xz(zeros))), zeros);
}

TEST_F(CompressedFile, GzipMembersAreJoined) {
  Bytes two = gzip({1, 2, 3});
  const Bytes second = gzip({4, 5});
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_EQ(read_data_file(folder_.write("two.gz", two)), (Bytes{1, 2, 3, 4, 5}));
}

// Would take minutes if each member allocated its buffer again.
TEST_F(CompressedFile, ManyEmptyGzipMembersCostWhatTheirBytesDo) {
  const Bytes empty = gzip({});
  Bytes many;
  for (int i = 0; i < 200'000; ++i) many.insert(many.end(), empty.begin(), empty.end());
  const Bytes last = gzip({4, 5});
  many.insert(many.end(), last.begin(), last.end());
  EXPECT_EQ(read_data_file(folder_.write("many.gz", many)), (Bytes{4, 5}));
}

TEST_F(CompressedFile, XzStreamsAndTheirPaddingAreJoined) {
  Bytes two = xz({1, 2, 3});
  two.insert(two.end(), 4, 0);
  const Bytes second = xz({4, 5});
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_EQ(read_data_file(folder_.write("two.xz", two)), (Bytes{1, 2, 3, 4, 5}));
}

TEST_F(CompressedFile, MissingFileAndFolderAreNamed) {
  EXPECT_THAT(data_error([&] { read_data_file(folder_.path() / "nothing.gz"); }),
              AllOf(HasSubstr("nothing.gz"), HasSubstr("does not exist")));
  EXPECT_THAT(data_error([&] { read_data_file(folder_.path()); }), HasSubstr("is not a file"));
}

TEST_F(CompressedFile, EveryTruncationOfGzipIsRefused) {
  const Bytes packed = gzip(counting_bytes(300));
  for (std::size_t length = 0; length < packed.size(); ++length) {
    const std::string message = refusal("cut.gz", Bytes(packed.begin(), packed.begin() + std::ptrdiff_t(length)));
    EXPECT_THAT(message, AllOf(HasSubstr("cut.gz"), HasSubstr(length == 0 ? "is empty" : "is truncated"))) << length;
  }
}

TEST_F(CompressedFile, FlippedByteInGzipIsRefused) {
  const Bytes packed = gzip(counting_bytes(300));
  // Header bytes 3 to 9 (flags, time, system) do not affect the content; all later bytes are data or checksums.
  for (std::size_t position = 10; position < packed.size(); ++position) {
    Bytes damaged = packed;
    damaged[position] ^= 0x55;
    EXPECT_THAT(refusal("bad.gz", damaged), HasSubstr("bad.gz")) << position;
  }
}

TEST_F(CompressedFile, NotGzipAndTrailingBytesAreRefused) {
  EXPECT_THAT(refusal("plain.gz", content_), AllOf(HasSubstr("plain.gz"), HasSubstr("not intact gzip data")));
  Bytes packed = gzip(content_);
  packed.push_back(7);
  packed.push_back(7);
  EXPECT_THAT(refusal("tail.gz", packed),
              HasSubstr("tail.gz' has trailing bytes: its gzip data end at byte " + std::to_string(packed.size() - 2) +
                        " of " + std::to_string(packed.size())));
}

TEST_F(CompressedFile, ContentIsRecognizedUnderAnyName) {
  EXPECT_EQ(read_data_file(folder_.write("a", gzip(content_))), content_);
  EXPECT_EQ(read_data_file(folder_.write("a.gz", xz(content_))), content_);
  EXPECT_EQ(read_beginning_of_data(folder_.write("a", xz(content_)), 3),
            (Bytes{content_.begin(), content_.begin() + 3}));
  const Bytes idx = {0, 0, 8, 1, 0, 0, 0, 1, 7};
  EXPECT_EQ(read_data_file(folder_.write("labels.gz", idx)), idx) << "as a browser stores what it has unpacked";
  const std::string page = "<!DOCTYPE html><title>Moved</title>";
  EXPECT_THAT(refusal("page.gz", {page.begin(), page.end()}),
              HasSubstr("page.gz' is not packed as its name says; it looks like an HTML page"));
}

TEST_F(CompressedFile, EveryTruncationOfXzIsRefused) {
  const Bytes packed = xz(counting_bytes(300));
  for (std::size_t length = 0; length < packed.size(); ++length) {
    const std::string message = refusal("cut.xz", Bytes(packed.begin(), packed.begin() + std::ptrdiff_t(length)));
    EXPECT_THAT(message, AllOf(HasSubstr("cut.xz"), HasSubstr(length == 0 ? "is empty" : "is truncated"))) << length;
  }
}

TEST_F(CompressedFile, FlippedByteInXzIsRefused) {
  const Bytes packed = xz(counting_bytes(300));
  for (std::size_t position = 0; position < packed.size(); ++position) {
    Bytes damaged = packed;
    damaged[position] ^= 0x55;
    EXPECT_THAT(refusal("bad.xz", damaged), HasSubstr("bad.xz")) << position;
  }
}

TEST_F(CompressedFile, NotXzAndTrailingBytesAreRefused) {
  EXPECT_THAT(refusal("plain.xz", content_), HasSubstr("plain.xz' is not xz data"));
  Bytes packed = xz(content_);
  packed.insert(packed.end(), 24, 7);  // longer than a stream header
  EXPECT_THAT(refusal("tail.xz", packed), AllOf(HasSubstr("tail.xz' is not intact xz data: damaged, or followed by"),
                                                HasSubstr(" of " + std::to_string(packed.size()))));
}

// Messages give positions in the file, not in the member.
TEST_F(CompressedFile, DamageOfALaterGzipMemberHasItsPlaceInTheFile) {
  Bytes two = gzip(content_);
  const std::size_t first_bytes = two.size();
  Bytes second = gzip({4, 5});
  second[2] = 7;  // invalid compression method: only 8 exists
  two.insert(two.end(), second.begin(), second.end());
  const std::string message = refusal("two.gz", two);
  const std::size_t at = message.find("near byte ");
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_GE(std::stoul(message.substr(at + 10)), first_bytes);
}

TEST_F(CompressedFile, XzThatNeedsMuchMemoryIsRefused) {
  // A few bytes of content can request a dictionary of 1 GiB. Compressing with such a dictionary would need the memory,
  // so the test rewrites the block header: size / 4 - 1, flags, two sizes, filter 0x21 (LZMA2), length of its
  // properties 1, dictionary code, padding, CRC-32.
  Bytes packed = xz({1, 2, 3});
  constexpr std::size_t kHeader = 12;
  const std::size_t crc_at = kHeader + packed[kHeader] * std::size_t{4};
  ASSERT_EQ(packed[kHeader + 4], 0x21);
  packed[kHeader + 6] = 36;  // 2 << (36 / 2 + 11) bytes
  const std::uint32_t crc = lzma_crc32(packed.data() + kHeader, crc_at - kHeader, 0);
  for (std::size_t i = 0; i < 4; ++i) packed[crc_at + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  EXPECT_THAT(refusal("huge.xz", packed), AllOf(HasSubstr("huge.xz"), HasSubstr("bytes of memory")));
}

TEST_F(CompressedFile, ContentOfTheLimitPassesAndOneMoreByteIsRefused) {
  const auto plain = folder_.write("limit", content_);
  const auto packed = folder_.write("limit.gz", gzip(content_));
  const auto xz_packed = folder_.write("limit.xz", xz(content_));
  for (const auto& path : {plain, packed, xz_packed}) {
    EXPECT_EQ(read_data_file(path, content_.size()), content_);
    EXPECT_THAT(data_error([&] { read_data_file(path, content_.size() - 1); }), HasSubstr("holds more than the 99999"));
  }
}

TEST_F(CompressedFile, ContentTakesNoMoreRoomThanItNeeds) {
  for (const auto& path : {folder_.write("a.gz", gzip(content_)), folder_.write("a.xz", xz(content_))}) {
    EXPECT_EQ(read_data_file(path).capacity(), content_.size());
  }
}

TEST_F(CompressedFile, XzWithoutAChecksumIsRefused) {
  const Bytes packed = xz(content_, 1, LZMA_CHECK_NONE);
  EXPECT_THAT(refusal("bare.xz", packed), AllOf(HasSubstr("bare.xz' has no checksum"), HasSubstr("--check=crc64")));
}

TEST_F(CompressedFile, TheBeginningIsEnough) {
  Bytes two = gzip(content_);
  const Bytes second = gzip(content_);
  two.insert(two.end(), second.begin(), second.end());
  for (const auto& path : {folder_.write("a", content_), folder_.write("a.gz", gzip(content_)),
                           folder_.write("two.gz", two), folder_.write("a.xz", xz(content_))}) {
    for (const std::size_t length : {std::size_t{1}, std::size_t{5000}, content_.size()}) {
      const Bytes expected(content_.begin(), content_.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_EQ(read_beginning_of_data(path, length), expected) << path << " " << length;
    }
  }
  EXPECT_EQ(read_beginning_of_data(folder_.path() / "a.xz", 1'000'000), content_);
}

/// Declared size: 1 + 1000 times the first byte.
std::uint64_t told_bytes(const std::string&, std::span<const std::uint8_t> beginning) {
  return 1 + std::uint64_t{1000} * beginning[0];
}

TEST_F(CompressedFile, ContentEndsWhereItsHeaderSays) {
  Bytes content(3001, 9);
  content[0] = 3;
  Bytes longer = content;
  longer.push_back(9);
  for (const bool is_longer : {false, true}) {
    const Bytes& written = is_longer ? longer : content;
    for (const auto& path :
         {folder_.write("a", written), folder_.write("a.gz", gzip(written)), folder_.write("a.xz", xz(written))}) {
      if (!is_longer) {
        EXPECT_EQ(read_sized_data_file(path, 1, told_bytes), content) << path;
        continue;
      }
      EXPECT_THAT(data_error([&] { read_sized_data_file(path, 1, told_bytes); }),
                  AllOf(HasSubstr(path.string()), HasSubstr("has trailing bytes: its header says 3001 bytes,")));
    }
  }
  // Shorter content is accepted, and the limit applies whatever the header declares.
  const auto shorter = folder_.write("shorter.gz", gzip({5, 1}));
  EXPECT_EQ(read_sized_data_file(shorter, 1, told_bytes), (Bytes{5, 1}));
  EXPECT_THAT(data_error([&] { read_sized_data_file(folder_.write("a.gz", gzip(content)), 1, told_bytes, 3000); }),
              HasSubstr("holds more than the 3000 bytes accepted here"));
}

// Reading stops at the declared size: later data is neither unpacked nor checked.
TEST_F(CompressedFile, UnpackingStopsWhereTheHeaderSays) {
  Bytes bomb = gzip(Bytes(1001, 1));
  Bytes member = gzip(content_);
  bomb.insert(bomb.end(), member.begin(), member.end());
  member[member.size() - 8] ^= 0x55;  // in the checksum
  bomb.insert(bomb.end(), member.begin(), member.end());
  const auto path = folder_.write("bomb.gz", bomb);
  EXPECT_THAT(data_error([&] { read_data_file(path); }), HasSubstr("not intact"));
  EXPECT_THAT(data_error([&] { read_sized_data_file(path, 1, told_bytes); }), HasSubstr("its header says 1001 bytes"));
}

TEST_F(CompressedFile, AFolderThatIsNotThereIsToldFromAMissingFile) {
  EXPECT_THAT(data_error([&] { find_data_file(folder_.path() / "none", "set"); }),
              AllOf(HasSubstr("there is no folder"), HasSubstr("/none'")));
  std::filesystem::create_symlink("set.gz", folder_.path() / "set.gz");
  EXPECT_THAT(data_error([&] { find_data_file(folder_.path(), "set"); }),
              HasSubstr("set.gz' cannot be opened: Too many levels of symbolic links"));
}

TEST_F(CompressedFile, FindsThePlainFileFirst) {
  folder_.write("set.gz", gzip(content_));
  EXPECT_EQ(find_data_file(folder_.path(), "set").filename(), "set.gz");
  folder_.write("set", content_);
  EXPECT_EQ(find_data_file(folder_.path(), "set").filename(), "set");
  EXPECT_THAT(data_error([&] { find_data_file(folder_.path(), "other"); }),
              AllOf(HasSubstr("other or other.gz or other.xz"), HasSubstr(folder_.path().string())));
  std::filesystem::create_directory(folder_.path() / "first");
  EXPECT_EQ(find_data_file(folder_.path(), "first", "set").filename(), "set") << "a folder is no file";
}

}  // namespace
}  // namespace terngrad::compressed_file_test
