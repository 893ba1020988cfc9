#include "datasets/formats/image_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datasets/formats/file_kind.h"
#include "datasets/formats/input_file.h"
#include "datasets/formats/jpeg_image.h"
#include "datasets/formats/png_image.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 28;
constexpr std::size_t kHeaderBytes = std::size_t{1} << 16;  // enough for most headers, except with large profiles

/// Decodes the whole image, since libpng cannot skip pixels.
void decode_png_box(const std::string& file, std::span<const std::uint8_t> bytes, const ImageBox& box,
                    DecodedImage& part) {
  const DecodedImage whole = decode_png(file, bytes, 3);
  check_image_box("decode_png_box", box, whole.height, whole.width);
  part.height = box.height;
  part.width = box.width;
  part.channels = 3;
  part.pixels.clear();
  for (int row = box.top; row < box.top + box.height; ++row) {
    const auto first = whole.pixels.begin() + (std::ptrdiff_t{row} * whole.width + box.left) * 3;
    part.pixels.insert(part.pixels.end(), first, first + std::ptrdiff_t{3} * box.width);
  }
}

struct ImageFormat {
  std::array<std::uint8_t, 3> magic;
  ImageHeader (*read_header)(const std::string& file, std::span<const std::uint8_t> bytes);
  DecodedImage (*decode)(const std::string& file, std::span<const std::uint8_t> bytes, int channels);
  void (*decode_box)(const std::string& file, std::span<const std::uint8_t> bytes, const ImageBox& box,
                     DecodedImage& part);
};
constexpr std::array kImageFormats = {
    ImageFormat{{0xff, 0xd8, 0xff}, read_jpeg_header, decode_jpeg, decode_jpeg_box},
    ImageFormat{{0x89, 'P', 'N'}, read_png_header, decode_png, decode_png_box},
};

const ImageFormat& find_format(const std::string& file, std::span<const std::uint8_t> bytes) {
  for (const ImageFormat& format : kImageFormats) {
    if (bytes.size() >= format.magic.size() && std::equal(format.magic.begin(), format.magic.end(), bytes.begin())) {
      return format;
    }
  }
  TERNGRAD_THROW(DataError, "'", file, "': expected a JPEG or PNG image, found ",
                 bytes.empty() ? "an empty file" : "neither", looks_like(bytes));
}

std::vector<std::uint8_t> read_whole(const InputFile& file) {
  if (file.num_bytes() > kMaxFileBytes) {
    TERNGRAD_THROW(DataError, "'", file.path().string(), "' holds more than the ", kMaxFileBytes,
                   " bytes accepted here");
  }
  return file.read_all();
}

}  // namespace

bool has_image_suffix(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  for (char& letter : suffix) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

ImageHeader read_image_file_header(const std::filesystem::path& path) {
  const std::string file = path.string();
  const InputFile input(path);
  const std::vector<std::uint8_t> beginning = input.read_beginning(kHeaderBytes);
  const ImageFormat& format = find_format(file, beginning);
  if (beginning.size() < kHeaderBytes) return format.read_header(file, beginning);
  try {
    return format.read_header(file, beginning);
  } catch (const DataError&) {
    // The header may be longer: retry with the whole file.
    return format.read_header(file, read_whole(input));
  }
}

DecodedImage decode_image(const std::string& name, std::span<const std::uint8_t> bytes, int channels) {
  return find_format(name, bytes).decode(name, bytes, channels);
}

DecodedImage decode_image_file(const std::filesystem::path& path, int channels) {
  const std::string file = path.string();
  const std::vector<std::uint8_t> bytes = read_whole(InputFile(path));
  return decode_image(file, bytes, channels);
}

ImageHeader read_image_header(const std::string& name, std::span<const std::uint8_t> bytes) {
  return find_format(name, bytes).read_header(name, bytes);
}

void decode_image_box(const std::string& name, std::span<const std::uint8_t> bytes, const ImageBox& box,
                      DecodedImage& part) {
  find_format(name, bytes).decode_box(name, bytes, box, part);
}

}  // namespace terngrad
