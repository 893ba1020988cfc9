#include "trainers/records/file_images.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/formats/image_file.h"
#include "datasets/formats/input_file.h"
#include "datasets/formats/text_lines.h"
#include "datasets/sets/image_folder.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

struct ListedImage {
  fs::path path = {};
  std::int32_t label = 0;
  std::string text = "";    // name of its class
  std::string synset = "";  // synset of its class
  std::vector<BoundingBox> boxes = {};
};

class FileImages final : public ImageSource {
 public:
  explicit FileImages(std::vector<ListedImage> images) : images_(std::move(images)) {}

  std::size_t size() const override { return images_.size(); }

  ImageExample example(std::size_t index) const override {
    const ListedImage& image = images_[index];
    const std::vector<std::uint8_t> bytes = InputFile(image.path).read_all();
    const ImageHeader header = read_image_header(image.path.string(), bytes);
    return {.encoded = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            .height = header.height,
            .width = header.width,
            .channels = header.is_grey ? 1 : 3,
            .label = image.label,
            .class_text = image.text,
            .synset = image.synset,
            .filename = image.path.filename().string(),
            .boxes = image.boxes};
  }

  std::string name(std::size_t index) const override { return images_[index].path.string(); }

  std::string key(std::size_t index) const override {
    const ListedImage& image = images_[index];
    // Without the folder, which may be moved between two builds.
    std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", image.path.filename().string(), image.label, image.text,
                                  image.synset, InputFile(image.path).num_bytes());
    for (const BoundingBox& box : image.boxes) {
      key += fmt::format("\n{},{},{},{}", box.x_min, box.y_min, box.x_max, box.y_max);
    }
    return key;
  }

 private:
  std::vector<ListedImage> images_;
};

[[noreturn]] void refuse(const fs::path& path, std::size_t line, const std::string& problem) {
  TERNGRAD_THROW(DataError, "'", path.string(), "': line ", line, ": ", problem);
}

/// Splits a line of a CSV file (RFC 4180): a quoted field may contain commas, and doubled quotes.
std::vector<std::string> split(const fs::path& path, const TextLine& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.text.size(); ++i) {
    const char letter = line.text[i];
    const bool is_next_quote = line.text.substr(i + 1).starts_with('"');
    if (is_quoted) {
      if (letter != '"') {
        fields.back() += letter;
      } else if (is_next_quote) {
        fields.back() += line.text[i++];
      } else {
        is_quoted = false;
        if (i + 1 < line.text.size() && line.text[i + 1] != ',') refuse(path, line.number, "text behind a quote");
      }
    } else if (letter == ',') {
      fields.emplace_back();
    } else if (letter != '"') {
      fields.back() += letter;
    } else if (i == 0 || line.text[i - 1] == ',') {
      is_quoted = true;
    } else {
      refuse(path, line.number, "a quote inside of a field that is not in quotes");
    }
  }
  if (is_quoted) refuse(path, line.number, "a quote that is not closed in its line");
  return fields;
}

template <class Number>
std::optional<Number> number_of(std::string_view field) {
  Number number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc() && end == field.data() + field.size() ? std::optional(number) : std::nullopt;
}

/// Parses boxes, four fields each.
std::vector<BoundingBox> read_boxes(const fs::path& path, std::size_t line, std::span<const std::string> fields) {
  if (fields.size() % 4 != 0) refuse(path, line, "expected four numbers for each box");
  std::vector<BoundingBox> boxes;
  for (std::size_t i = 0; i < fields.size(); i += 4) {
    std::array<float, 4> sides{};
    for (std::size_t k = 0; k < 4; ++k) {
      const auto side = number_of<float>(fields[i + k]);
      if (!side || !(*side >= 0 && *side <= 1)) {
        refuse(path, line, "expected a box in fractions of the sides, 0 to 1, found '" + fields[i + k] + "'");
      }
      sides[k] = *side;
    }
    if (sides[0] > sides[2] || sides[1] > sides[3]) refuse(path, line, "expected xmin, ymin, xmax, ymax in this order");
    boxes.push_back({.x_min = sides[0], .y_min = sides[1], .x_max = sides[2], .y_max = sides[3]});
  }
  return boxes;
}

std::unique_ptr<const ImageSource> source_of(std::vector<ListedImage> images) {
  return images.empty() ? nullptr : std::make_unique<const FileImages>(std::move(images));
}

std::vector<ListedImage> csv_subset(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  std::vector<ListedImage> images;
  if (!path_exists(path)) return images;
  const std::vector<std::uint8_t> content = InputFile(path).read_all();
  for (const TextLine& line : text_lines(content)) {
    const std::vector<std::string> fields = split(path, line);
    const auto label = fields.size() < 2 ? std::nullopt : number_of<std::int32_t>(fields[1]);
    if (!label || *label < 0 || *label > kMaxImageLabel || fields[0].empty()) {
      refuse(path, line.number,
             "expected FILE,LABEL with a label from 0 to " + std::to_string(kMaxImageLabel) + ", found '" +
                 std::string(line.text.substr(0, 60)) + "'");
    }
    images.push_back({.path = folder / fields[0],
                      .label = *label,
                      .boxes = read_boxes(path, line.number, std::span(fields).subspan(2))});
  }
  if (images.empty()) TERNGRAD_THROW(DataError, "'", path.string(), "' lists no images");
  return images;
}

struct Synsets {
  std::map<std::string, std::int32_t> labels;
  LabelNames names;
};

Synsets read_synsets(const fs::path& path) {
  Synsets synsets;
  const std::vector<std::uint8_t> content = InputFile(path).read_all();
  for (const auto& [number, line] : text_lines(content)) {
    const auto label = static_cast<std::int32_t>(synsets.labels.size() + 1);
    const std::string synset(line.substr(0, line.find_first_of(" \t")));
    if (!synsets.labels.emplace(synset, label).second) refuse(path, number, "synset '" + synset + "' is there twice");
    synsets.names.emplace(label, std::string(line));
  }
  if (synsets.labels.empty()) TERNGRAD_THROW(DataError, "'", path.string(), "' names no synsets");
  return synsets;
}

using Boxes = std::map<std::string, std::vector<BoundingBox>, std::less<>>;

Boxes read_box_file(const std::string& file) {
  Boxes boxes;
  if (file.empty()) return boxes;
  const std::vector<std::uint8_t> content = InputFile(file).read_all();
  for (const TextLine& line : text_lines(content)) {
    const std::vector<std::string> fields = split(file, line);
    if (fields.size() != 5) {
      refuse(file, line.number,
             "expected FILE,XMIN,YMIN,XMAX,YMAX, found '" + std::string(line.text.substr(0, 60)) + "'");
    }
    const auto box = read_boxes(file, line.number, std::span(fields).subspan(1));
    boxes[fs::path(fields[0]).stem().string()].push_back(box[0]);
  }
  return boxes;
}

std::vector<ListedImage> imagenet_subset(const fs::path& folder, const Synsets& synsets, const Boxes& boxes) {
  std::vector<ListedImage> images;
  if (!path_exists(folder)) return images;
  const ImageFolderList list = list_image_folder(folder);
  for (const std::string& name : list.classes) {
    if (!synsets.labels.contains(name)) {
      TERNGRAD_THROW(DataError, "'", (folder / name).string(), "': there is no synset '", name, "' among the labels");
    }
  }
  for (const LabelledFile& file : list.files) {
    const std::string& synset = list.classes[static_cast<std::size_t>(file.label)];
    ListedImage image{.path = file.path, .label = synsets.labels.at(synset), .synset = synset};
    const auto found = boxes.find(image.path.stem().string());
    if (found != boxes.end()) image.boxes = found->second;
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace

ImageSources folder_images(const std::string& folder) {
  const ImageFolderList train = list_image_folder(fs::path(folder) / "train");
  const auto images_of = [&](const ImageFolderList& list) {
    std::vector<ListedImage> images;
    for (const LabelledFile& file : list.files) {
      images.push_back(
          {.path = file.path, .label = file.label, .text = train.classes[static_cast<std::size_t>(file.label)]});
    }
    return source_of(std::move(images));
  };
  ImageSources sources;
  sources.train = images_of(train);
  if (path_exists(fs::path(folder) / "test")) {
    sources.test = images_of(list_image_folder(fs::path(folder) / "test", &train.classes));
  }
  for (std::size_t label = 0; label < train.classes.size(); ++label) {
    sources.names.emplace(static_cast<std::int32_t>(label), train.classes[label]);
  }
  return sources;
}

ImageSources csv_images(const std::string& folder) {
  ImageSources sources;
  sources.train = source_of(csv_subset(folder, "train.csv"));
  sources.test = source_of(csv_subset(folder, "test.csv"));
  if (sources.train == nullptr && sources.test == nullptr) {
    TERNGRAD_THROW(DataError, "'", folder, "' has neither train.csv nor test.csv");
  }
  return sources;
}

ImageSources imagenet_images(const std::string& folder, const std::string& labels, const std::string& boxes) {
  Synsets synsets = read_synsets(labels);
  const Boxes of_images = read_box_file(boxes);
  ImageSources sources;
  sources.train = source_of(imagenet_subset(fs::path(folder) / "train", synsets, of_images));
  sources.test = source_of(imagenet_subset(fs::path(folder) / "validation", synsets, of_images));
  if (sources.train == nullptr && sources.test == nullptr) {
    TERNGRAD_THROW(DataError, "'", folder, "' has neither a folder train nor a folder validation");
  }
  sources.names = std::move(synsets.names);
  return sources;
}

}  // namespace terngrad
