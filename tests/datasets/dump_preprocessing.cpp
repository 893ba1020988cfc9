// terngrad_dump_preprocessing IMAGES OUT SIZE VISITS: applies each preprocessing to the JPEG and PNG files below the
// folder IMAGES and writes the results to the folder OUT for scripts/dev/check_preprocessing.py. Files: images.txt (one
// line per image: height, width, path), sorted by path; pixels.u8, the pixels [height, width, 3]; NAME.f32 for each
// preprocessing, for image i: training visits {.seed = kSeed, .epoch = 0 to VISITS - 1} of example i, then evaluation,
// each [SIZE, SIZE, 3]. Odd images have two objects, kObjects.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/compressed_file.h"
#include "datasets/formats/image_file.h"
#include "datasets/transforms/preprocessing.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::uint64_t kSeed = 20'170'522;
constexpr std::array kObjects = {BoundingBox{.x_min = 0.1f, .y_min = 0.15f, .x_max = 0.3f, .y_max = 0.4f},
                                 BoundingBox{.x_min = 0.55f, .y_min = 0.5f, .x_max = 0.95f, .y_max = 0.85f}};

/// An output file in OUT.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path) : path_(path), stream_(path, std::ios::binary) {}

  template <class T>
  void write(std::span<const T> values) {
    stream_.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
    if (!stream_.flush()) TERNGRAD_THROW(DataError, "cannot write ", path_.string());
  }
  void write(const std::string& text) { write(std::span<const char>(text)); }

 private:
  std::filesystem::path path_;
  std::ofstream stream_;
};

using Files = std::vector<std::filesystem::path>;

Files find_images(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && has_image_suffix(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void dump_pixels(const Files& files, const std::filesystem::path& out) {
  OutputFile list(out / "images.txt"), pixels(out / "pixels.u8");
  for (const std::filesystem::path& file : files) {
    const DecodedImage image = decode_image_file(file, 3);
    list.write(std::to_string(image.height) + ' ' + std::to_string(image.width) + ' ' + file.string() + '\n');
    pixels.write(std::span<const std::uint8_t>(image.pixels));
  }
}

void dump_squares(const std::string& name, const Files& files, int size, int visits, const std::filesystem::path& out) {
  OutputFile squares(out / (name + ".f32"));
  const auto training = make_preprocessing(name, Subset::kTrain, size);
  const auto evaluation = make_preprocessing(name, Subset::kTest, size);
  std::vector<float> square(std::size_t{3} * static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::vector<std::uint8_t> bytes = read_data_file(files[i]);
    StoredImage image{.name = files[i].string(), .bytes = bytes};
    if (i % 2 == 1) image.boxes = kObjects;
    for (int visit = 0; visit <= visits; ++visit) {
      const Preprocessing& preprocessing = visit < visits ? *training : *evaluation;
      preprocessing.run(image, {.seed = kSeed, .epoch = static_cast<std::uint64_t>(visit)},
                        static_cast<std::int64_t>(i), square);
      squares.write(std::span<const float>(square));
    }
  }
}

void dump(const std::filesystem::path& images, const std::filesystem::path& out, int size, int visits) {
  const Files files = find_images(images);
  dump_pixels(files, out);
  for (const std::string& name : image_preprocessing_names()) dump_squares(name, files, size, visits, out);
}

}  // namespace
}  // namespace terngrad

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: terngrad_dump_preprocessing IMAGES OUT SIZE VISITS\n";
    return 2;
  }
  try {
    terngrad::dump(argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  } catch (const std::exception& error) {
    std::cerr << "terngrad_dump_preprocessing: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
