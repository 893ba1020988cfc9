// The data sets read from TFRecord shards: `imagenet`, `flowers` and `records` (user-defined sets).
#pragma once

#include <memory>

#include "datasets/dataset.h"

namespace terngrad {

/// Opens the shards in `options.data_dir` (find_shards) through a RecordStore: records of parse_image_example with
/// JPEG, PNG or raw images, which are not kept in memory.
///
/// A record's label is the stored one plus `options.label_offset`. The optional file labels.txt in the folder names
/// classes in lines `label:name` with the stored label.
///   imagenet  stored labels 1 to 1000; 1001 classes, of which 0 does not occur, as in the original. label_offset -1:
///             1000 classes.
///   flowers   6 classes as in the original: stored labels 1 to 5, or 0 to 4 as in slim, which become 1 to 5.
///             label_offset -1: 5 classes.
///   records   any stored labels; the number of classes is given by labels.txt, else by the training subset's largest
///             label
///
/// Images have three channels and sides of `options.image_size` pixels, which is required. `options.preprocessing` is
/// one of image_preprocessing_names(); auto is `standard` (make_preprocessing).
/// @throws InvalidArgument for an invalid data_dir, image_size, preprocessing, label_offset or num_threads; DataError
/// for shards, an index or a labels.txt that are missing, damaged or inconsistent, and for a label out of range, naming
/// its record. read() throws DataError, naming the record, for a damaged record
std::unique_ptr<Dataset> make_imagenet(const DatasetOptions& options);
std::unique_ptr<Dataset> make_flowers(const DatasetOptions& options);
std::unique_ptr<Dataset> make_records(const DatasetOptions& options);

}  // namespace terngrad
