// Writing records: the shards of a set, their indexes and labels.txt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "datasets/dataset.h"
#include "trainers/records/image_source.h"

namespace terngrad {

struct ShardBuild {
  std::string folder = "";  // where shards go; made if it is missing
  int train_shards = 1024;
  int test_shards = 128;
  std::uint64_t seed = 12345;  // of the order
  int num_threads = 1;
};

/// What a build has done so far.
struct BuildProgress {
  Subset subset = Subset::kTrain;
  int num_shards = 0;       // of the subset
  int num_done = 0;         // of them
  std::uint64_t bytes = 0;  // written for them by this call
};

/// Writes the records of both subsets: shards named by shard_name, each subset's index (index_path) and, where there
/// are names, labels.txt. Images come in the order of epoch_permutation(seed, epoch 0 for training and 1 for the test
/// subset), or in the source's where it is not shuffled; of n images shard s of S holds those from floor(n s / S) to
/// floor(n (s + 1) / S) - 1.
///
/// Every file is written whole under a temporary name and then renamed. A second call for the same source, seed and
/// shards writes only the shards that are missing: the file build.txt in the folder, written first, says what they are
/// of. Equal sources, seeds and numbers of shards give equal bytes, for any number of threads.
/// @param progress  called after every shard, by one thread at a time; may be empty
/// @throws InvalidArgument for fewer than 1 or more than 99,999 shards; DataError, naming it, for an image that is
/// damaged or outside a record's limits, fewer images than shards, a folder with shards of another build, or a file
/// that cannot be written
void build_shards(const ImageSources& sources, const ShardBuild& build,
                  const std::function<void(const BuildProgress&)>& progress);

/// Makes the index file of a subset from its shards, with num_threads threads. @returns its records
/// @throws DataError as index_shards and RecordIndex
std::size_t make_index_file(const std::string& folder, Subset subset, int num_threads);

}  // namespace terngrad
