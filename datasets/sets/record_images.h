// The data sets that are read from TFRecord shards: `imagenet`, `flowers` and `records`, a set of one's own.
#pragma once

#include <memory>

#include "datasets/dataset.h"

namespace terngrad {

/// Opens the shards in `options.data_dir` (find_shards; RecordStore reads them by their index): records of
/// parse_image_example, whose images are JPEG or PNG files or raw. Nothing of them is kept in memory.
///
/// A record's label is the stored one plus `options.label_offset`. What names classes is the file labels.txt in the
/// folder, lines `label:name` with the stored label; it may be missing.
///   imagenet  stored 1 to 1000; 1001 classes, of which 0 is never met, as the original has them. label_offset -1: 1000
///             classes.
///   flowers   6 classes as in the original: stored 1 to 5, or 0 to 4 as slim stores them, which become 1 to 5.
///             label_offset -1: 5 classes.
///   records   any; as many classes as labels.txt names, or else as the largest label of the training subset says
///
/// Images have three channels and `options.image_size` pixels a side, which must be given. `options.preprocessing` is
/// one of image_preprocessing_names(), auto is `standard` (make_preprocessing).
/// @throws InvalidArgument for a bad data_dir, image_size, preprocessing, label_offset or num_threads; DataError for
/// shards, an index or a labels.txt that are missing or damaged or do not go together, and a label out of range, naming
/// its record. read() throws DataError, naming the record, for one that is damaged
std::unique_ptr<Dataset> make_imagenet(const DatasetOptions& options);
std::unique_ptr<Dataset> make_flowers(const DatasetOptions& options);
std::unique_ptr<Dataset> make_records(const DatasetOptions& options);

}  // namespace terngrad
