// Image sources from image files, listed by folders, in a CSV file, or as in ImageNet's archives.
#pragma once

#include <string>

#include "trainers/records/image_source.h"

namespace terngrad {

/// `folder`/train/CLASS/* and `folder`/test/CLASS/*, as the data set `folder` lists them (make_image_folder); labels
/// count the classes from 0.
/// @throws DataError as make_image_folder for names; images are checked when they are read
ImageSources folder_images(const std::string& folder);

/// `folder`/train.csv and `folder`/test.csv, of which one may be missing. A line is FILE,LABEL or
/// FILE,LABEL,XMIN,YMIN,XMAX,YMAX with four more numbers per further box, as in CSV files (RFC 4180, but without line
/// ends in fields); FILE is relative to the folder, boxes are fractions of the sides. Empty lines are ignored.
/// @throws DataError naming file and line for a malformed line, a label outside [0, kMaxImageLabel], or a box that is
/// inverted or not inside the image; or if neither file exists
ImageSources csv_images(const std::string& folder);

/// `folder`/train/SYNSET/*.JPEG and `folder`/validation/SYNSET/*.JPEG, of which one may be missing, as the data set
/// `imagenet` has them: the label of a synset is its line number in `labels`, from 1.
/// @param labels  a text file with one synset per line, in the order of their labels
/// @param boxes   empty, or a text file with lines FILE,XMIN,YMIN,XMAX,YMAX, where FILE is the name of an image without
/// folder, with or without suffix; images without a line have no box
/// @throws DataError naming file and line or folder for a missing or malformed file, a repeated synset, or a folder
/// that is not a synset
ImageSources imagenet_images(const std::string& folder, const std::string& labels, const std::string& boxes);

}  // namespace terngrad
