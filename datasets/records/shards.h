// Shards: the files that contain the records of a subset.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace terngrad {

/// The shards of a subset in `folder`, in the order of their numbers. Names, with SUBSET train, or validation or test
/// for the test subset:
///   SUBSET-00007-of-01024                 as in TensorFlow's ImageNet
///   SET_SUBSET_00001-of-00005.tfrecord    as in slim, with any SET
///   SUBSET-NAME.tfrecord                  a single shard with any NAME, as in the original's mnist and cifar10
/// Other files are ignored. A worker's part of the training shards is a folder that is named worker_R_of_P
/// (scripts/hosts/split_dataset.sh), or whose shards are all symbolic links: numbers may be missing there. A part
/// without test shards has those of linked_folder.
/// @throws DataError, naming folder and file, if there is no shard; a number is missing, repeated or not below the
/// number of shards; or files of the subset differ in their number of shards or kind of name
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& folder, Subset subset);

/// The folder that the training shards in `folder` are symbolic links into; nothing if the first is not a link.
/// @throws DataError if the folder cannot be listed
std::optional<std::filesystem::path> linked_folder(const std::filesystem::path& folder);

/// The path of the file `name` beside the shards in `folder`: there, or if it is missing in linked_folder, if it is
/// there.
/// @throws DataError as linked_folder
std::filesystem::path file_beside_shards(const std::filesystem::path& folder, const std::string& name);

/// Number of a shard and of all shards, by its name as find_shards takes it: 7 and 1024.
struct ShardNumber {
  int number = 0;
  int num_shards = 1;
};
ShardNumber shard_number(const std::filesystem::path& shard);

/// True if find_shards finds files. @throws DataError if the folder cannot be listed
bool has_shards(const std::filesystem::path& folder, Subset subset);

/// Shard name such as "train-00007-of-01024"; the test subset is called validation.
std::string shard_name(Subset subset, int number, int num_shards);

/// Name of a subset in shard names: "train" or "validation".
const char* subset_name(Subset subset);

}  // namespace terngrad
