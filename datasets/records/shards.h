// Shards: the files over which the records of a subset are spread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// The shards of a subset in `folder`, in the order of their numbers, by one of these names with SUBSET train, for the
/// test subset validation or test:
///   SUBSET-00007-of-01024                 as TensorFlow's ImageNet has them
///   SET_SUBSET_00001-of-00005.tfrecord    as slim has them, of any SET
///   SUBSET-NAME.tfrecord                  a single one, of any NAME, as the original's mnist and cifar10
/// Other files are passed over.
/// @throws DataError, naming folder and file, if there is none; a number is missing, twice or not below the number of
/// shards; or files of the subset differ in their number of shards or kind of name
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& folder, Subset subset);

/// Whether there are files of such a name. @throws DataError if the folder cannot be listed
bool has_shards(const std::filesystem::path& folder, Subset subset);

/// "train-00007-of-01024"; for the test subset validation.
std::string shard_name(Subset subset, int number, int num_shards);

/// "train" or "validation".
const char* subset_name(Subset subset);

}  // namespace terngrad
