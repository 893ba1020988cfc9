#include "datasets/sets/optdigits.h"

#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "datasets/formats/compressed_file.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kSide = 8;
constexpr int kPixels = kSide * kSide;
constexpr int kLargestPixel = 16;
constexpr int kClasses = 10;

/// Takes the number at the front of `line`.
int take_number(const std::string& file, std::size_t line_number, std::string_view& line, int max) {
  int value = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || value < 0 || value > max) {
    TERNGRAD_THROW(DataError, "[optdigits] '", file, "': line ", line_number, ": expected a number from 0 to ", max,
                   ", found '", line.substr(0, 10), "'");
  }
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return value;
}

/// Takes the comma at the front of `line`.
void take_comma(const std::string& file, std::size_t line_number, std::string_view& line) {
  if (!line.starts_with(',')) {
    TERNGRAD_THROW(DataError, "[optdigits] '", file, "': line ", line_number, ": expected ", kPixels + 1,
                   " numbers with commas between them, found '", line.substr(0, 10), "' behind a pixel");
  }
  line.remove_prefix(1);
}

}  // namespace

GreyPixels parse_optdigits(const std::string& file, std::span<const std::uint8_t> text) {
  GreyPixels grey{.height = kSide, .width = kSide, .pixels = {}, .labels = {}};
  std::string_view rest(reinterpret_cast<const char*>(text.data()), text.size());
  for (std::size_t line_number = 1; !rest.empty(); ++line_number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : line.size());
    for (int i = 0; i < kPixels; ++i) {
      const int pixel = take_number(file, line_number, line, kLargestPixel);
      take_comma(file, line_number, line);
      grey.pixels.push_back(static_cast<std::uint8_t>(pixel * 255 / kLargestPixel));
    }
    grey.labels.push_back(static_cast<std::uint8_t>(take_number(file, line_number, line, kClasses - 1)));
    if (!line.empty()) {
      TERNGRAD_THROW(DataError, "[optdigits] '", file, "': line ", line_number,
                     ": expected its end after the label, found '", line.substr(0, 10), "'");
    }
  }
  if (grey.labels.empty()) TERNGRAD_THROW(DataError, "[optdigits] '", file, "' is empty, expected examples");
  return grey;
}

std::unique_ptr<Dataset> make_optdigits(const DatasetOptions& options) {
  check_image_size("optdigits", options.image_size);
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[optdigits] needs data_dir, the folder with its files");
  const std::filesystem::path path =
      find_data_file(options.data_dir, options.subset == Subset::kTrain ? "optdigits.tra" : "optdigits.tes");
  GreyPixels grey = parse_optdigits(path.string(), read_data_file(path));
  return std::make_unique<GreyImages>("optdigits", std::move(grey), kClasses, options.image_size);
}

}  // namespace terngrad
