// Writes the shards of records of a data set, their indexes and labels.txt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "datasets/dataset.h"
#include "trainers/records/image_source.h"

namespace terngrad {

/// Options of build_shards.
struct ShardBuild {
  std::string folder = "";  // folder of the shards; created if it is missing
  int train_shards = 1024;
  int test_shards = 128;
  std::uint64_t seed = 12345;  // seed of the order
  int num_threads = 1;
};

/// Progress of a build.
struct BuildProgress {
  Subset subset = Subset::kTrain;
  int num_shards = 0;       // total number of the subset
  int num_done = 0;         // number of complete shards
  std::uint64_t bytes = 0;  // bytes written by this call
};

/// Writes the records of both subsets: shards named by shard_name, each subset's index (index_path) and, if there are
/// names, labels.txt. Images are in the order of epoch_permutation(seed, epoch 0 for training and 1 for the test
/// subset), or of the source if it is not shuffled. Shard s of S holds the images [floor(n s / S), floor(n (s + 1) /
/// S)).
///
/// Files are written atomically. A second call for the same source, seed and shards only writes the missing shards:
/// build.txt in the folder, written first, identifies the build. Equal sources, seeds and numbers of shards give equal
/// bytes, for any number of threads.
/// @param progress  called after every shard, never concurrently; may be empty
/// @throws InvalidArgument for fewer than 1 or more than 99,999 shards; DataError, naming the cause, for an image that
/// is damaged or exceeds a record's limits, fewer images than shards, a folder with another build, or a file that
/// cannot be written
void build_shards(const ImageSources& sources, const ShardBuild& build,
                  const std::function<void(const BuildProgress&)>& progress);

/// Creates the index file of a subset from its shards. @returns the number of records
/// @throws DataError as index_shards and RecordIndex
std::size_t make_index_file(const std::string& folder, Subset subset, int num_threads);

}  // namespace terngrad
