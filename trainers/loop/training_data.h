// TrainingData: the examples that a run trains on, all of them or the share that a process has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compress/comm/communicator.h"
#include "datasets/dataset.h"

namespace terngrad {

struct TrainingData {
  std::shared_ptr<const Dataset> dataset;  // this process's: every example, or its shard
  bool is_shard = false;
  std::int64_t num_examples = 0;  // of all shards together
  std::string fingerprint;        // of all shards in order of processes, equal on all of them
};

/// Data that every process has all of. Waits for no other. @throws DataError as data_fingerprint
TrainingData whole_data(std::shared_ptr<const Dataset> dataset);

/// Data of which each process that has workers has a shard, of any size; others, which serve, take part with what they
/// have open and count for nothing. A collective call.
/// @param own  of this process's shard alone, as whole_data gives it
/// @throws DataError on all processes, naming two of them, if their shards differ in the images' shape, the number of
/// classes, or what the classes are called
TrainingData join_shards(const TrainingData& own, Communicator& communicator, int num_servers);

/// One line for the user: name, shape, classes, numbers of examples; of a shard also those of this process.
/// @param test_set  nullptr for none
std::string data_summary(const TrainingData& data, const Dataset* test_set);

/// Folder of a process's shard below `data_dir`, as scripts/hosts/split_dataset.sh names it: worker_R_of_P.
/// @param num_processes  that have workers; ranks beyond them get the first one's
std::string shard_folder(const std::string& data_dir, int rank, int num_processes);

}  // namespace terngrad
