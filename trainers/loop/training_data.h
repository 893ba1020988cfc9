// TrainingData: the training set of a process, whole or a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compress/comm/communicator.h"
#include "datasets/dataset.h"

namespace terngrad {

/// The examples that this process trains on, with facts about all processes' examples.
struct TrainingData {
  std::shared_ptr<const Dataset> dataset;  // this process's examples: all, or its shard
  bool is_shard = false;
  std::int64_t num_examples = 0;  // total of all shards
  std::string fingerprint;        // over all shards in the order of processes; equal on all processes
};

/// Data that every process holds completely. Not collective. @throws DataError as data_fingerprint
TrainingData whole_data(std::shared_ptr<const Dataset> dataset);

/// Collective: data of which each process with workers holds a shard, of any size. Servers take part with any data set,
/// which is not counted.
/// @param own  this process's shard, from whole_data
/// @throws DataError on all processes, naming two whose shards differ in image shape, number or names of classes
TrainingData join_shards(const TrainingData& own, Communicator& communicator, int num_servers);

/// One line for the user: name, shape, classes, numbers of examples, and for a shard the number in this process.
/// @param test_set  nullptr for none
std::string data_summary(const TrainingData& data, const Dataset* test_set);

/// Folder of a process's shard in `data_dir`, as named by scripts/hosts/split_dataset.sh: worker_R_of_P.
/// @param num_processes  number of processes with workers; higher ranks (servers) get the first one's folder
std::string shard_folder(const std::string& data_dir, int rank, int num_processes);

}  // namespace terngrad
