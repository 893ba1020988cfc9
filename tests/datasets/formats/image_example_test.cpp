#include "datasets/formats/image_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/example.pb.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/data_files.h"

namespace terngrad::image_example_test {
namespace {

using ::testing::HasSubstr;

using FeatureMap = google::protobuf::Map<std::string, records::Feature>;

std::span<const std::uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

const std::string kJpeg = std::string("\xff\xd8") + "the rest of a file";

/// A complete example, changed by `change`.
std::string example(const std::function<void(FeatureMap&)>& change = {}) {
  records::Example built;
  FeatureMap& features = *built.mutable_features()->mutable_feature();
  features["image/encoded"].mutable_bytes_list()->add_value(kJpeg);
  features["image/format"].mutable_bytes_list()->add_value("JPEG");
  features["image/class/label"].mutable_int64_list()->add_value(17);
  features["image/class/text"].mutable_bytes_list()->add_value("jay");
  features["image/class/synset"].mutable_bytes_list()->add_value("n01580077");
  features["image/filename"].mutable_bytes_list()->add_value("a.JPEG");
  features["image/height"].mutable_int64_list()->add_value(30);
  features["image/width"].mutable_int64_list()->add_value(40);
  features["image/colorspace"].mutable_bytes_list()->add_value("RGB");
  const std::vector<std::pair<const char*, std::vector<float>>> boxes = {
      {"xmin", {0.25f, 0.0f}}, {"ymin", {0.5f, 0.0f}}, {"xmax", {0.75f, 1.0f}}, {"ymax", {0.5f, 1.0f}}};
  for (const auto& [side, values] : boxes) {
    for (const float value : values) {
      features[std::string("image/object/bbox/") + side].mutable_float_list()->add_value(value);
    }
  }
  if (change) change(features);
  return built.SerializeAsString();
}

/// Message of the DataError for an example changed by `change`.
std::string refusal(const std::function<void(FeatureMap&)>& change) {
  return data_error([&] { parse_image_example(as_bytes(example(change))); });
}

TEST(ImageExample, HasWhatTheRecordSays) {
  const ImageExample parsed = parse_image_example(as_bytes(example()));
  EXPECT_EQ(parsed.encoded, kJpeg);
  EXPECT_FALSE(parsed.is_raw);
  EXPECT_EQ(parsed.label, 17);
  EXPECT_EQ(parsed.height, 30);
  EXPECT_EQ(parsed.width, 40);
  EXPECT_EQ(parsed.class_text, "jay");
  EXPECT_EQ(parsed.synset, "n01580077");
  EXPECT_EQ(parsed.filename, "a.JPEG");
  EXPECT_EQ(parsed.boxes, (std::vector<BoundingBox>{{0.25f, 0.5f, 0.75f, 0.5f}, {0, 0, 1, 1}}));
}

TEST(ImageExample, MostKeysMayBeMissingAndListsEmpty) {
  const ImageExample parsed = parse_image_example(as_bytes(example([](FeatureMap& features) {
    for (const char* key : {"image/format", "image/class/text", "image/height", "image/width", "image/filename"}) {
      features.erase(key);
    }
    for (const char* side : {"xmin", "ymin", "xmax", "ymax"}) {
      features[std::string("image/object/bbox/") + side].Clear();  // the original writes images without boxes so
    }
    features["image/class/synset"].mutable_bytes_list()->Clear();
  })));
  EXPECT_EQ(parsed.height, 0);
  EXPECT_EQ(parsed.synset, "");
  EXPECT_TRUE(parsed.boxes.empty());
}

TEST(ImageExample, ReadsListsThatAreNotPacked) {
  // features {1: feature {1: "image/class/label" => {3: int64_list {1: 5 unpacked}}}} and an encoded image.
  const std::string label = std::string("\x0a\x11") + "image/class/label" + "\x12\x04\x1a\x02\x08\x05";
  const std::string encoded = std::string("\x0a\x0d") + "image/encoded" + "\x12\x05\x0a\x03\x0a\x01" + "x";
  const auto entry = [](const std::string& map_entry) {
    return std::string("\x0a") + static_cast<char>(map_entry.size()) + map_entry;
  };
  const std::string features = entry(label) + entry(encoded);
  const std::string bytes = std::string("\x0a") + static_cast<char>(features.size()) + features;
  const ImageExample parsed = parse_image_example(as_bytes(bytes));
  EXPECT_EQ(parsed.label, 5);
  EXPECT_EQ(parsed.encoded, "x");
}

TEST(ImageExample, RawImagesHaveTheBytesOfTheirSize) {
  const auto raw = [](std::size_t num_bytes, bool has_width) {
    return [=](FeatureMap& features) {
      features["image/format"].mutable_bytes_list()->set_value(0, "raw");
      features["image/encoded"].mutable_bytes_list()->set_value(0, std::string(num_bytes, 'x'));
      features["image/height"].mutable_int64_list()->set_value(0, 2);
      features["image/width"].mutable_int64_list()->set_value(0, 3);
      if (!has_width) features.erase("image/width");
    };
  };
  EXPECT_TRUE(parse_image_example(as_bytes(example(raw(18, true)))).is_raw);
  EXPECT_THAT(refusal(raw(17, true)), HasSubstr("image/encoded: expected 2 x 3 x 3 bytes, found 17"));
  EXPECT_THAT(refusal(raw(18, false)), HasSubstr("expected image/height and image/width of a raw image, found one"));
}

TEST(ImageExample, SaysWhatIsWrong) {
  const auto expect_refusal = [](const char* message, const std::function<void(FeatureMap&)>& change) {
    EXPECT_THAT(refusal(change), HasSubstr(message));
  };
  expect_refusal("expected the key image/encoded", [](FeatureMap& f) { f.erase("image/encoded"); });
  expect_refusal("expected the key image/class/label", [](FeatureMap& f) { f.erase("image/class/label"); });
  expect_refusal("image/class/label: expected int64, found bytes",
                 [](FeatureMap& f) { f["image/class/label"].mutable_bytes_list()->add_value("5"); });
  expect_refusal("image/encoded: expected bytes, found floats",
                 [](FeatureMap& f) { f["image/encoded"].mutable_float_list()->add_value(5); });
  expect_refusal("image/class/label: expected one value, found 2",
                 [](FeatureMap& f) { f["image/class/label"].mutable_int64_list()->add_value(3); });
  expect_refusal("image/height: expected 1 to 32768, found 0",
                 [](FeatureMap& f) { f["image/height"].mutable_int64_list()->set_value(0, 0); });
  expect_refusal("image/width: expected 1 to 32768, found 4294967297",
                 [](FeatureMap& f) { f["image/width"].mutable_int64_list()->set_value(0, 4294967297); });
  expect_refusal("image/object/bbox/ymax: expected as many values as image/object/bbox/xmin, 2, found 3",
                 [](FeatureMap& f) { f["image/object/bbox/ymax"].mutable_float_list()->add_value(1); });
  for (const float bad : {-0.1f, 1.1f, NAN, INFINITY, 0.8f}) {
    expect_refusal("bounding box 0: expected 0 <= min <= max <= 1",
                   [=](FeatureMap& f) { f["image/object/bbox/xmin"].mutable_float_list()->set_value(0, bad); });
  }
  const std::string cut = example().substr(0, 40);
  EXPECT_THAT(data_error([&] { parse_image_example(as_bytes(cut)); }),
              HasSubstr("expected a tf.train.Example, found 40 bytes that are none"));
  EXPECT_THAT(data_error([] { parse_image_example({}); }), HasSubstr("expected the key image/encoded"));
}

TEST(ImageExample, ComesBackAsItWasWritten) {
  ImageExample written{.encoded = kJpeg,
                       .height = 30,
                       .width = 40,
                       .label = 1000,
                       .class_text = "jay",
                       .synset = "n01580077",
                       .filename = "a.JPEG",
                       .boxes = {{0.25f, 0.5f, 0.75f, 1}, {0, 0, 1, 1}}};
  const std::string bytes = serialize_image_example(written);
  EXPECT_EQ(serialize_image_example(written), bytes);
  const ImageExample parsed = parse_image_example(as_bytes(bytes));
  EXPECT_EQ(parsed.encoded, written.encoded);
  EXPECT_EQ(parsed.label, 1000);
  EXPECT_EQ(parsed.boxes, written.boxes);
  EXPECT_EQ(parsed.filename, "a.JPEG");
  // Keys are sorted by bytes, independent of the map's order in memory.
  std::size_t last = 0;
  for (const char* key : {"image/channels", "image/class/label", "image/class/synset", "image/class/text",
                          "image/colorspace", "image/encoded", "image/filename", "image/format", "image/height",
                          "image/object/bbox/xmax", "image/object/bbox/xmin", "image/width"}) {
    const std::size_t at = bytes.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    EXPECT_GT(at, last) << key;
    last = at;
  }
  EXPECT_THAT(bytes, HasSubstr("JPEG"));

  written.is_raw = true;
  EXPECT_THROW(serialize_image_example(written), InvalidArgument);
  written.encoded = std::string(30 * 40 * 3, 'x');
  EXPECT_TRUE(parse_image_example(as_bytes(serialize_image_example(written))).is_raw);
  written.is_raw = false;
  EXPECT_THROW(serialize_image_example(written), InvalidArgument);  // neither JPEG nor PNG
}

}  // namespace
}  // namespace terngrad::image_example_test
