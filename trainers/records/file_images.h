// Images in files of their own, listed by folders, in a CSV file, or as ImageNet's archives unpack.
#pragma once

#include <string>

#include "trainers/records/image_source.h"

namespace terngrad {

/// `folder`/train/CLASS/* and `folder`/test/CLASS/*, as the data set `folder` lists them (make_image_folder); labels
/// count the classes from 0.
/// @throws DataError as make_image_folder for names; images are checked when they are read
ImageSources folder_images(const std::string& folder);

/// `folder`/train.csv and `folder`/test.csv, of which one may be missing. A line is FILE,LABEL or
/// FILE,LABEL,XMIN,YMIN,XMAX,YMAX with further fours for further boxes, as in CSV files (RFC 4180, but without line
/// ends in fields); FILE is relative to the folder, boxes are in fractions of the sides. Empty lines are passed over.
/// @throws DataError, naming file and line, for a line of another form, a label that is not from 0 to kMaxImageLabel, a
/// box that is not inside the image or inside out; or if neither file is there
ImageSources csv_images(const std::string& folder);

/// `folder`/train/SYNSET/*.JPEG and `folder`/validation/SYNSET/*.JPEG, of which one may be missing, as the data set
/// `imagenet` has them: the label of a synset is its line in `labels`, counted from 1, one synset a line.
/// @param labels  a text file: the synsets in the order of their labels
/// @param boxes   empty, or a text file with lines FILE,XMIN,YMIN,XMAX,YMAX, FILE the name of an image without its
/// folder, with or without its suffix; images without a line have no box
/// @throws DataError, naming file and line or folder, for a file that is missing or of another form, a synset twice, or
/// a folder that is none of the synsets
ImageSources imagenet_images(const std::string& folder, const std::string& labels, const std::string& boxes);

}  // namespace terngrad
