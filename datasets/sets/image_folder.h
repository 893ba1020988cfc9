// The data set `folder`: a user's own JPEG and PNG files, one folder for each class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// Opens `options.data_dir` laid out as
///   train/<class>/<image>   and   test/<class>/<image>
/// with images in files that end in .jpg, .jpeg or .png, in any case. Classes are the folders of train/ in the byte
/// order of their names; a class may be missing from test/. Names that begin with a dot are passed over, and Thumbs.db
/// and desktop.ini, which Windows makes; anything else is refused, so that nothing is left out silently.
///
/// Opening lists the files and checks the header of each, with `options.num_threads` threads; read() decodes. Images
/// have one channel if all training images are grey, otherwise three (RGB; a grey one gets three equal channels). They
/// are resized and cropped as resize_to_square does, to `options.image_size`, which must be given: values are
/// (x / 255 - 0.5) * 2. EXIF orientation is not applied, transparency is dropped. Nothing is drawn: training and test
/// subsets are read alike.
/// @throws InvalidArgument if data_dir is empty, or for a bad image_size or num_threads; DataError, naming the file,
/// for a folder that is missing or empty, a class in test/ that train/ lacks, a file that is no intact image (by its
/// header when the set is opened, by its pixels in read()), or a test image with colours where all training images are
/// grey
std::unique_ptr<Dataset> make_image_folder(const DatasetOptions& options);

struct LabelledFile {
  std::string path;
  std::int32_t label = 0;
};

/// Image files and their classes, by the rules above.
struct ImageFolderList {
  std::vector<std::string> classes;  // by label
  std::vector<LabelledFile> files;   // class after class
};

/// Lists `folder`/<class>/<image>; images are not opened.
/// @param classes  those that there may be, in byte order; null: the folders' own names
/// @throws DataError as make_image_folder for names
ImageFolderList list_image_folder(const std::filesystem::path& folder,
                                  const std::vector<std::string>* classes = nullptr);

}  // namespace terngrad
