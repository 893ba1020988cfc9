#include "datasets/sets/image_folder.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "datasets/formats/image_file.h"
#include "datasets/formats/input_file.h"
#include "datasets/sets/grey_images.h"
#include "datasets/transforms/resize.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

using Path = std::filesystem::path;

/// Calls `read` and prefixes its error messages, which name a file, with the set's name.
template <class Read>
auto of_this_set(const Read& read) {
  try {
    return read();
  } catch (const DataError& error) {
    TERNGRAD_THROW(DataError, "[folder] ", error.what());
  }
}

bool is_grey(const LabelledFile& file) {
  return of_this_set([&] { return read_image_file_header(file.path); }).is_grey;
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::vector<LabelledFile> files, std::vector<std::string> classes, int channels, int image_size)
      : files_(std::move(files)), classes_(std::move(classes)), channels_(channels), image_size_(image_size) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return static_cast<std::int64_t>(files_.size()); }
  int height() const override { return image_size_; }
  int width() const override { return image_size_; }
  int channels() const override { return channels_; }
  int num_classes() const override { return static_cast<int>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }

  std::int32_t label(std::int64_t index) const override { return file(index).label; }

  void read(std::int64_t index, const ExampleVisit&, std::span<float> image) const override {
    const std::string& path = file(index).path;
    resize_to_square(of_this_set([&] { return decode_image_file(path, channels_); }), image_size_, image);
  }

  bool is_augmented() const override { return false; }

 private:
  const LabelledFile& file(std::int64_t index) const {
    TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[folder] example index must be in [0, ", num_examples(),
                     "), got ", index);
    return files_[static_cast<std::size_t>(index)];
  }

  std::string name_ = "folder";
  std::vector<LabelledFile> files_;
  std::vector<std::string> classes_;  // class names by label
  int channels_;
  int image_size_;
};

/// True for files that operating systems create among images: hidden ones (.DS_Store, ._x of macOS) and Windows'.
bool is_passed_over(std::string name) {
  for (char& letter : name) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return name.starts_with('.') || name == "thumbs.db" || name == "desktop.ini";
}

/// The entries of a folder in byte order of names, without ignored names.
std::vector<Path> list_folder(const Path& folder) {
  std::error_code error;
  std::vector<Path> entries;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (!is_passed_over(at->path().filename().string())) entries.push_back(at->path());
  }
  if (error) TERNGRAD_THROW(DataError, "[folder] '", folder.string(), "' cannot be listed: ", error.message());
  std::sort(entries.begin(), entries.end(),
            [](const Path& a, const Path& b) { return a.filename().string() < b.filename().string(); });
  return entries;
}

/// Names of the class folders in train/ or test/.
std::vector<std::string> list_classes(const Path& folder) {
  std::vector<std::string> names;
  for (const Path& entry : list_folder(folder)) {
    if (!of_this_set([&] { return is_folder(entry); })) {
      TERNGRAD_THROW(DataError, "[folder] '", entry.string(), "': expected folders only, one for each class");
    }
    names.push_back(entry.filename().string());
  }
  if (names.empty()) {
    TERNGRAD_THROW(DataError, "[folder] '", folder.string(), "' is empty: expected a folder for each class");
  }
  return names;
}

std::vector<Path> list_images(const Path& folder) {
  std::vector<Path> files = list_folder(folder);
  if (files.empty()) TERNGRAD_THROW(DataError, "[folder] '", folder.string(), "' is empty: a class needs images");
  for (const Path& file : files) {
    if (has_image_suffix(file)) continue;
    TERNGRAD_THROW(DataError, "[folder] '", file.string(), "': expected files that end in .jpg, .jpeg or .png only");
  }
  return files;
}

/// Checks the header of every file. @returns the index of the first image with colours, or the number of files
std::int64_t check_headers(const std::vector<LabelledFile>& files, int num_threads) {
  const auto count = static_cast<std::int64_t>(files.size());
  std::atomic<std::int64_t> first_colour = count;
  parallel_for(num_threads, count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (is_grey(files[static_cast<std::size_t>(i)])) continue;
      std::int64_t seen = first_colour;
      while (i < seen && !first_colour.compare_exchange_weak(seen, i)) {
      }
    }
  });
  return first_colour;
}

bool all_are_grey(const std::vector<LabelledFile>& files) { return std::all_of(files.begin(), files.end(), is_grey); }

}  // namespace

ImageFolderList list_image_folder(const std::filesystem::path& folder, const std::vector<std::string>* classes) {
  ImageFolderList list;
  const std::vector<std::string> found = list_classes(folder);
  list.classes = classes == nullptr ? found : *classes;
  for (const std::string& name : found) {
    const auto at = std::lower_bound(list.classes.begin(), list.classes.end(), name);
    if (at == list.classes.end() || *at != name) {
      TERNGRAD_THROW(DataError, "[folder] '", (folder / name).string(), "': there is no class '", name,
                     "' in the training subset, whose folders name the classes");
    }
    for (const Path& file : list_images(folder / name)) {
      list.files.push_back({file.string(), static_cast<std::int32_t>(at - list.classes.begin())});
    }
  }
  return list;
}

std::unique_ptr<Dataset> make_image_folder(const DatasetOptions& options) {
  TERNGRAD_REQUIRE(options.image_size >= 1 && options.image_size <= kMaxImageSize, "[folder] image_size must be 1 to ",
                   kMaxImageSize, " (images may have any size, a net takes one), got ", options.image_size);
  TERNGRAD_REQUIRE(options.num_threads >= 0, "[folder] num_threads must not be negative, got ", options.num_threads);
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[folder] needs data_dir, the folder that holds train/ and test/");
  const int num_threads = options.num_threads > 0 ? options.num_threads : num_hardware_threads();
  const Path root = options.data_dir;
  std::vector<std::string> classes = list_classes(root / "train");
  const bool train = options.subset == Subset::kTrain;
  std::vector<LabelledFile> files = list_image_folder(root / (train ? "train" : "test"), &classes).files;
  const auto num_files = static_cast<std::int64_t>(files.size());
  const std::int64_t first_colour = check_headers(files, num_threads);
  const bool one_channel = train ? first_colour == num_files : all_are_grey(list_image_folder(root / "train").files);
  if (one_channel && first_colour < num_files) {
    TERNGRAD_THROW(DataError, "[folder] '", files[static_cast<std::size_t>(first_colour)].path,
                   "' has colours, but all training images are grey: expected a grey image");
  }
  return std::make_unique<ImageFolder>(std::move(files), std::move(classes), one_channel ? 1 : 3, options.image_size);
}

}  // namespace terngrad
