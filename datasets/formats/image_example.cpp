#include "datasets/formats/image_example.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "datasets/formats/decoded_image.h"
#include "datasets/formats/example.pb.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using records::Example;
using records::Feature;

constexpr const char* kEncoded = "image/encoded";
constexpr const char* kFormat = "image/format";
constexpr const char* kHeight = "image/height";
constexpr const char* kWidth = "image/width";
constexpr const char* kLabel = "image/class/label";
constexpr const char* kText = "image/class/text";
constexpr const char* kSynset = "image/class/synset";
constexpr const char* kFilename = "image/filename";
constexpr std::array kBoxKeys = {"image/object/bbox/xmin", "image/object/bbox/ymin", "image/object/bbox/xmax",
                                 "image/object/bbox/ymax"};

const char* kind_name(Feature::KindCase kind) {
  switch (kind) {
    case Feature::kBytesList:
      return "bytes";
    case Feature::kFloatList:
      return "floats";
    case Feature::kInt64List:
      return "int64";
    default:
      return "nothing";
  }
}

/// The features of an Example, with access by key.
class Features {
 public:
  explicit Features(Example& example) : features_(*example.mutable_features()->mutable_feature()) {}

  /// The single value of a key; null if it is missing.
  std::string* bytes(const char* key) {
    Feature* feature = find(key, Feature::kBytesList);
    return feature == nullptr || !is_one(key, feature->bytes_list().value_size())
               ? nullptr
               : feature->mutable_bytes_list()->mutable_value(0);
  }
  std::optional<std::int64_t> integer(const char* key) {
    const Feature* feature = find(key, Feature::kInt64List);
    if (feature == nullptr || !is_one(key, feature->int64_list().value_size())) return std::nullopt;
    return feature->int64_list().value(0);
  }
  std::vector<float> floats(const char* key) {
    const Feature* feature = find(key, Feature::kFloatList);
    if (feature == nullptr) return {};
    return {feature->float_list().value().begin(), feature->float_list().value().end()};
  }

 private:
  /// The feature of a key; an empty list of any kind counts as missing.
  Feature* find(const char* key, Feature::KindCase kind) {
    const auto found = features_.find(key);
    if (found == features_.end() || is_empty(found->second)) return nullptr;
    if (found->second.kind_case() != kind) {
      TERNGRAD_THROW(DataError, key, ": expected ", kind_name(kind), ", found ", kind_name(found->second.kind_case()));
    }
    return &found->second;
  }
  static bool is_empty(const Feature& feature) {
    return feature.bytes_list().value().empty() && feature.float_list().value().empty() &&
           feature.int64_list().value().empty();
  }
  static bool is_one(const char* key, int count) {
    if (count != 1) TERNGRAD_THROW(DataError, key, ": expected one value, found ", count);
    return true;
  }

  google::protobuf::Map<std::string, Feature>& features_;
};

std::string upper_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

int read_side(Features& features, const char* key) {
  const std::optional<std::int64_t> side = features.integer(key);
  if (!side) return 0;
  if (*side < 1 || *side > kMaxImageSide) {
    TERNGRAD_THROW(DataError, key, ": expected 1 to ", kMaxImageSide, ", found ", *side);
  }
  return static_cast<int>(*side);
}

std::vector<BoundingBox> read_boxes(Features& features) {
  std::array<std::vector<float>, kBoxKeys.size()> sides;
  for (std::size_t k = 0; k < kBoxKeys.size(); ++k) sides[k] = features.floats(kBoxKeys[k]);
  for (std::size_t k = 1; k < kBoxKeys.size(); ++k) {
    if (sides[k].size() == sides[0].size()) continue;
    TERNGRAD_THROW(DataError, kBoxKeys[k], ": expected as many values as ", kBoxKeys[0], ", ", sides[0].size(),
                   ", found ", sides[k].size());
  }
  std::vector<BoundingBox> boxes;
  for (std::size_t i = 0; i < sides[0].size(); ++i) {
    const BoundingBox box{sides[0][i], sides[1][i], sides[2][i], sides[3][i]};
    const auto is_inside = [](float min, float max) { return min >= 0 && min <= max && max <= 1; };  // false for NaN
    if (!is_inside(box.x_min, box.x_max) || !is_inside(box.y_min, box.y_max)) {
      TERNGRAD_THROW(DataError, "bounding box ", i, ": expected 0 <= min <= max <= 1, found x ", box.x_min, " to ",
                     box.x_max, ", y ", box.y_min, " to ", box.y_max);
    }
    boxes.push_back(box);
  }
  return boxes;
}

std::string text_of(Features& features, const char* key) {
  std::string* const text = features.bytes(key);
  return text == nullptr ? "" : std::move(*text);
}

std::uint64_t raw_bytes(const ImageExample& example) {
  return std::uint64_t{3} * static_cast<std::uint64_t>(example.height) * static_cast<std::uint64_t>(example.width);
}

const char* format_of(const ImageExample& example) {
  if (example.is_raw) return "RAW";
  if (example.encoded.starts_with("\xff\xd8")) return "JPEG";
  if (example.encoded.starts_with("\x89PNG")) return "PNG";
  TERNGRAD_THROW(InvalidArgument, "[serialize_image_example] the image must be a JPEG or PNG file");
}

}  // namespace

ImageExample parse_image_example(std::span<const std::uint8_t> data) {
  Example parsed;
  if (data.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !parsed.ParseFromArray(data.data(), static_cast<int>(data.size()))) {
    TERNGRAD_THROW(DataError, "expected a tf.train.Example, found ", data.size(), " bytes that are none");
  }
  Features features(parsed);
  ImageExample example;
  std::string* const encoded = features.bytes(kEncoded);
  if (encoded == nullptr) TERNGRAD_THROW(DataError, "expected the key ", kEncoded, ", found none");
  const std::optional<std::int64_t> label = features.integer(kLabel);
  if (!label) TERNGRAD_THROW(DataError, "expected the key ", kLabel, ", found none");
  if (*label < 0 || *label > kMaxImageLabel) {
    TERNGRAD_THROW(DataError, kLabel, ": expected 0 to ", kMaxImageLabel, ", found ", *label);
  }
  example.encoded = std::move(*encoded);
  example.label = static_cast<std::int32_t>(*label);
  example.is_raw = upper_case(text_of(features, kFormat)) == "RAW";
  example.height = read_side(features, kHeight);
  example.width = read_side(features, kWidth);
  example.class_text = text_of(features, kText);
  example.synset = text_of(features, kSynset);
  example.filename = text_of(features, kFilename);
  example.boxes = read_boxes(features);
  if (!example.is_raw) return example;
  if (example.height == 0 || example.width == 0) {
    TERNGRAD_THROW(DataError, "expected ", kHeight, " and ", kWidth, " of a raw image, found ",
                   example.height == 0 && example.width == 0 ? "neither" : "one of them");
  }
  if (example.encoded.size() != raw_bytes(example)) {
    TERNGRAD_THROW(DataError, kEncoded, ": expected ", example.height, " x ", example.width, " x 3 bytes, found ",
                   example.encoded.size());
  }
  return example;
}

std::string serialize_image_example(const ImageExample& example) {
  TERNGRAD_REQUIRE(!example.is_raw || example.encoded.size() == raw_bytes(example),
                   "[serialize_image_example] a raw image must have height x width x 3 bytes, ", raw_bytes(example),
                   ", has ", example.encoded.size());
  Example written;
  auto& features = *written.mutable_features()->mutable_feature();
  const auto add_bytes = [&](const char* key, const std::string& value) {
    if (!value.empty()) features[key].mutable_bytes_list()->add_value(value);
  };
  const auto add_integer = [&](const char* key, std::int64_t value) {
    features[key].mutable_int64_list()->add_value(value);
  };
  add_bytes(kEncoded, example.encoded);
  add_bytes(kFormat, format_of(example));
  add_bytes("image/colorspace", "RGB");
  add_integer("image/channels", example.channels);
  add_integer(kLabel, example.label);
  if (example.height > 0) add_integer(kHeight, example.height);
  if (example.width > 0) add_integer(kWidth, example.width);
  add_bytes(kText, example.class_text);
  add_bytes(kSynset, example.synset);
  add_bytes(kFilename, example.filename);
  for (const BoundingBox& box : example.boxes) {
    const std::array sides = {box.x_min, box.y_min, box.x_max, box.y_max};
    for (std::size_t k = 0; k < sides.size(); ++k) features[kBoxKeys[k]].mutable_float_list()->add_value(sides[k]);
  }

  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // sorts maps by key
    written.SerializeToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace terngrad
