#include "datasets/records/stored_pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/datasets/record_files.h"

namespace terngrad::stored_pixels_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const ImageExample& bad, int channels = 3) {
  const TemporaryFolder folder;
  write_shards(folder, Subset::kTrain, {{png_example(3, 10), bad}});
  const RecordStore store(folder.path(), Subset::kTrain, 1);
  return data_error([&] {
    read_stored_pixels(store, 12, 10, channels, 5, 1, [](std::size_t, std::int32_t, const DecodedImage&) {});
  });
}

TEST(StoredPixels, GivesEveryImageOnce) {
  const TemporaryFolder folder;
  std::vector<ImageExample> examples;
  for (int i = 0; i < 200; ++i) examples.push_back(png_example(i % 5, i));
  examples[7] = {.encoded = std::string(12 * 10 * 3, '\x07'), .is_raw = true, .height = 12, .width = 10, .label = 2};
  write_shards(folder, Subset::kTrain, {examples});
  const RecordStore store(folder.path(), Subset::kTrain, 1);
  std::vector<int> seen(200);
  read_stored_pixels(store, 12, 10, 3, 5, 3, [&](std::size_t record, std::int32_t label, const DecodedImage& image) {
    EXPECT_EQ(label, static_cast<std::int32_t>(record % 5));
    EXPECT_EQ(image.pixels, plain_image(12, 10, 3, static_cast<int>(record)).pixels);
    ++seen[record];
  });
  EXPECT_EQ(seen, std::vector<int>(200, 1));
}

TEST(StoredPixels, OtherImagesAreRefusedByPlace) {
  EXPECT_THAT(refusal(png_example(5, 1)), AllOf(HasSubstr("record 1"), HasSubstr("expected 0 to 4, found 5")));
  ImageExample larger = png_example(1, 1);
  larger.encoded = encode_png(plain_image(12, 11, 3, 1));
  EXPECT_THAT(refusal(larger), AllOf(HasSubstr("record 1"), HasSubstr("expected an image of 12 x 10, found 12 x 11")));
  ImageExample damaged = png_example(1, 1);
  damaged.encoded.resize(damaged.encoded.size() - 20);
  EXPECT_THAT(refusal(damaged), HasSubstr("record 1"));
  EXPECT_THAT(refusal(png_example(1, 1), 1), HasSubstr("record 0"));  // colour where grey is expected
}

}  // namespace
}  // namespace terngrad::stored_pixels_test
