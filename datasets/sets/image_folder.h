// The data set `folder`: the user's JPEG and PNG files, one folder per class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// Opens `options.data_dir` with files
///   train/<class>/<image>   and   test/<class>/<image>
/// that end in .jpg, .jpeg or .png, in any case. Classes are the folders of train/ in byte order of their names; test/
/// may lack classes. Names that begin with a dot, Thumbs.db and desktop.ini (written by Windows) are ignored; any other
/// file is an error, so that nothing is skipped silently.
///
/// Opening lists the files and checks their headers, with `options.num_threads` threads; read() decodes. Images have
/// one channel if all training images are grey, otherwise three (RGB, equal for grey images). They are resized and
/// cropped by resize_to_square to `options.image_size`, which is required: values are (x / 255 - 0.5) * 2. EXIF
/// orientation is not applied, transparency is dropped. No augmentation: training and test images are read alike.
/// @throws InvalidArgument for an empty data_dir or an invalid image_size or num_threads; DataError, naming the file,
/// for a folder that is missing or empty, a class in test/ that train/ lacks, a file that is not an intact image (its
/// header when the set is opened, its pixels in read()), or a test image with colours if all training images are grey
std::unique_ptr<Dataset> make_image_folder(const DatasetOptions& options);

/// An image file and its class.
struct LabelledFile {
  std::string path;
  std::int32_t label = 0;
};

/// Image files and their classes, by the rules above.
struct ImageFolderList {
  std::vector<std::string> classes;  // class names by label
  std::vector<LabelledFile> files;   // sorted by class
};

/// Lists `folder`/<class>/<image> without opening images.
/// @param classes  allowed classes, in byte order; null: all folders are classes
/// @throws DataError as make_image_folder for missing or unexpected names
ImageFolderList list_image_folder(const std::filesystem::path& folder,
                                  const std::vector<std::string>* classes = nullptr);

}  // namespace terngrad
