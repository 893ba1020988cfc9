#include "datasets/formats/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "datasets/formats/jpeg_image.h"
#include "tests/datasets/image_files.h"

namespace terngrad::image_file_test {
namespace {

using ::testing::HasSubstr;

TEST(ImageFile, SuffixesOfAnyCase) {
  for (const char* name : {"a.jpg", "a.JPEG", "x/b.Png", "a.b.JPG"}) EXPECT_TRUE(has_image_suffix(name)) << name;
  for (const char* name : {"a", "jpg", "a.gif", "a.jpg.txt", ".png"}) EXPECT_FALSE(has_image_suffix(name)) << name;
}

TEST(ImageFile, ContentDecidesTheFormat) {
  const TemporaryFolder folder;
  const auto wrong_name = folder.write("a.jpg", png({{1, 2, 3, 4, 5, 6}}, 2));
  EXPECT_EQ(read_image_file_header(wrong_name).width, 2);
  EXPECT_EQ(decode_image_file(wrong_name, 3).pixels, (Bytes{1, 2, 3, 4, 5, 6}));
  const auto photo = folder.write("b.jpg", jpeg(smooth_pixels(9, 5, 3), 9, 5));
  EXPECT_EQ(read_image_file_header(photo).height, 9);
  EXPECT_EQ(decode_image_file(photo, 3).height, 9);
}

TEST(ImageFile, LongHeadersAreReadWhole) {
  const TemporaryFolder folder;
  Bytes bytes = jpeg(smooth_pixels(300, 300, 3), 300, 300);
  for (int i = 0; i < 2; ++i) {  // two comments of 65,535 bytes after the first marker
    Bytes comment(65'537, 'x');
    comment[0] = 0xff;
    comment[1] = 0xfe;
    comment[2] = comment[3] = 0xff;
    bytes.insert(bytes.begin() + 2, comment.begin(), comment.end());
  }
  EXPECT_EQ(read_image_file_header(folder.write("a.jpg", bytes)).width, 300);
}

TEST(ImageFile, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  const auto refusal = [&](const Bytes& bytes) {
    const auto path = folder.write("a.jpg", bytes);
    const std::string message = data_error([&] { read_image_file_header(path); });
    EXPECT_EQ(data_error([&] { decode_image_file(path, 3); }), message);
    return message;
  };
  EXPECT_THAT(refusal({}), HasSubstr("a.jpg': expected a JPEG or PNG image, found an empty file"));
  EXPECT_THAT(refusal({0xff, 0xd8}), HasSubstr("a.jpg': expected a JPEG or PNG image, found neither"));
  EXPECT_THAT(refusal({0xff, 0xd8, 0xff}), HasSubstr("a.jpg': expected an intact JPEG image, found: "));
  EXPECT_THAT(data_error([&] { read_image_file_header(folder.path() / "no.png"); }), HasSubstr("no.png"));
}

TEST(ImageFile, BoxesOfEitherFormatAreCutOut) {
  const Bytes picture = png({{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}}, 2);
  EXPECT_EQ(read_image_header("a", picture).height, 2);
  DecodedImage part;
  decode_image_box("a", picture, {.top = 1, .left = 1, .height = 1, .width = 1}, part);
  EXPECT_EQ(part.pixels, (Bytes{10, 11, 12}));
  decode_image_box("a", picture, {.top = 0, .left = 1, .height = 2, .width = 1}, part);
  EXPECT_EQ(part.pixels, (Bytes{4, 5, 6, 10, 11, 12}));
  EXPECT_THROW(decode_image_box("a", picture, {.top = 0, .left = 1, .height = 2, .width = 2}, part), InvalidArgument);
  const Bytes photo = jpeg(smooth_pixels(9, 5, 3), 9, 5);
  decode_image_box("b", photo, {.top = 0, .left = 0, .height = 9, .width = 5}, part);
  EXPECT_EQ(part.pixels, decode_jpeg("b", photo, 3).pixels);
  EXPECT_THAT(data_error([&] { decode_image_box("c", counting_bytes(50), {0, 0, 1, 1}, part); }), HasSubstr("'c'"));
}

}  // namespace
}  // namespace terngrad::image_file_test
