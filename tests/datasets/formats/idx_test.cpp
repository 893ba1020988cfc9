#include "datasets/formats/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/datasets/data_files.h"

namespace terngrad::idx_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two images of 2 x 3 pixels, hand-made from the format's description.
const Bytes kImages = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255};
const Bytes kLabels = {0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 9};

std::string images_refusal(const Bytes& bytes) {
  return data_error([&] { parse_idx_images("some-images", bytes); });
}
std::string labels_refusal(const Bytes& bytes) {
  return data_error([&] { parse_idx_labels("some-labels", bytes, 10); });
}
Bytes with(Bytes bytes, std::size_t position, std::uint8_t value) {
  bytes[position] = value;
  return bytes;
}

TEST(Idx, ParsesGoldenBytes) {
  const IdxImages images = parse_idx_images("some-images", kImages);
  EXPECT_EQ(images.count, 2);
  EXPECT_EQ(images.height, 2);
  EXPECT_EQ(images.width, 3);
  EXPECT_EQ(images.pixels, Bytes(kImages.begin() + 16, kImages.end()));
  EXPECT_EQ(parse_idx_labels("some-labels", kLabels, 10), (Bytes{5, 0, 9}));
}

TEST(Idx, EveryTruncationIsRefused) {
  for (std::size_t length = 0; length < kImages.size(); ++length) {
    EXPECT_THAT(images_refusal(Bytes(kImages.begin(), kImages.begin() + std::ptrdiff_t(length))),
                AllOf(HasSubstr("some-images"), HasSubstr("truncated")))
        << length;
  }
  for (std::size_t length = 0; length < kLabels.size(); ++length) {
    EXPECT_THAT(labels_refusal(Bytes(kLabels.begin(), kLabels.begin() + std::ptrdiff_t(length))),
                AllOf(HasSubstr("some-labels"), HasSubstr("truncated")))
        << length;
  }
}

TEST(Idx, TruncationNamesTheFieldOrTheSizes) {
  EXPECT_THAT(images_refusal(Bytes(kImages.begin(), kImages.begin() + 14)),
              HasSubstr("field columns: expected 4 bytes at offset 12, found 2"));
  EXPECT_THAT(images_refusal(Bytes(kImages.begin(), kImages.begin() + 20)),
              HasSubstr("expected 12 bytes of pixels, found 4"));
}

TEST(Idx, HeadersSayHowLongFilesAre) {
  EXPECT_EQ(idx_images_bytes("some-images", std::span(kImages).first(kIdxHeaderBytes)), kImages.size());
  EXPECT_EQ(idx_labels_bytes("some-labels", std::span(kLabels).first(8)), kLabels.size());
  EXPECT_EQ(idx_images_bytes("some-images", with(kImages, 4, 255)), 16 + 6ull * 0xff000002);
  EXPECT_THAT(data_error([&] { idx_images_bytes("some-images", std::span(kImages).first(15)); }),
              HasSubstr("field columns"));
  EXPECT_THAT(data_error([&] { idx_labels_bytes("some-labels", kImages); }), HasSubstr("field magic"));
}

TEST(Idx, WrongMagicIsRefused) {
  EXPECT_THAT(images_refusal(kLabels), HasSubstr("field magic: expected 2051, found 2049"));
  EXPECT_THAT(labels_refusal(kImages), HasSubstr("expected 2049, found 2051; it looks like images in IDX format"));
  EXPECT_THAT(labels_refusal({0, 0, 12, 2, 0, 0, 0, 1}), HasSubstr("it looks like the labels of QMNIST"));
}

TEST(Idx, TrailingBytesAreRefused) {
  Bytes images = kImages, labels = kLabels;
  images.push_back(0);
  labels.push_back(0);
  EXPECT_THAT(images_refusal(images), HasSubstr("trailing bytes: expected 12 bytes of pixels, found 13"));
  EXPECT_THAT(labels_refusal(labels), HasSubstr("trailing bytes: expected 3 bytes of labels, found 4"));
}

TEST(Idx, ImpossibleCountsAndSizesAreRefused) {
  EXPECT_THAT(images_refusal(with(kImages, 7, 0)), HasSubstr("field count: expected at least 1, found 0"));
  EXPECT_THAT(images_refusal(with(kImages, 11, 0)), HasSubstr("field rows: expected 1 to 4096, found 0"));
  EXPECT_THAT(images_refusal(with(kImages, 12, 255)), HasSubstr("field columns: expected 1 to 4096, found 4278190083"));
  EXPECT_THAT(images_refusal(with(kImages, 4, 255)), HasSubstr("truncated"));
  EXPECT_THAT(labels_refusal(with(kLabels, 7, 0)), HasSubstr("field count: expected at least 1, found 0"));
}

TEST(Idx, LabelOutOfRangeIsRefused) {
  EXPECT_THAT(labels_refusal(with(kLabels, 9, 10)), HasSubstr("label of example 1: expected 0 to 9, found 10"));
}

}  // namespace
}  // namespace terngrad::idx_test
