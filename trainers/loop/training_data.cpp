#include "trainers/loop/training_data.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "trainers/io/xxhash64.h"
#include "trainers/loop/data_fingerprint.h"

namespace terngrad {
namespace {

/// Facts about a process's shard, sent to the others. Message headers ensure that all have the same byte order.
struct ShardInfo {
  std::array<std::int64_t, 4> shape = {};  // height, width, channels, classes
  std::int64_t num_examples = 0;
  std::array<char, 16> fingerprint = {};
};

std::string shape_text(const ShardInfo& note) {
  return fmt::format("images of {}x{}x{} in {} classes", note.shape[0], note.shape[1], note.shape[2], note.shape[3]);
}

/// Concatenated names, each terminated by a zero byte, which no file name contains.
std::string joined_names(const Dataset& dataset) {
  std::string joined;
  for (const std::string& name : dataset.class_names()) joined.append(name).push_back('\0');
  return joined;
}

std::vector<std::string> split_names(const std::string& joined) {
  std::vector<std::string> names;
  std::istringstream in(joined);
  for (std::string name; std::getline(in, name, '\0');) names.push_back(std::move(name));
  return names;
}

/// @throws DataError unless labels have the same class names on `rank` as on rank 0
void require_same_classes(const std::string& first_joined, int rank, const std::string& joined) {
  if (joined == first_joined) return;
  const std::vector<std::string> first = split_names(first_joined);
  const std::vector<std::string> names = split_names(joined);
  const auto name_of = [](const std::vector<std::string>& of, std::size_t label) {
    return label < of.size() ? "'" + of[label] + "'" : std::string("without a name");
  };
  std::size_t label = 0;
  while (label < first.size() && label < names.size() && first[label] == names[label]) ++label;
  TERNGRAD_THROW(DataError, "--data_shards: class ", label, " is ", name_of(first, label), " for rank 0 and ",
                 name_of(names, label), " for rank ", rank, "; all shards must have folders for the same classes");
}

ShardInfo note_of(const TrainingData& data) {
  const Dataset& dataset = *data.dataset;
  ShardInfo note{.shape = {dataset.height(), dataset.width(), dataset.channels(), dataset.num_classes()},
                 .num_examples = data.num_examples};
  data.fingerprint.copy(note.fingerprint.data(), note.fingerprint.size());
  return note;
}

}  // namespace

TrainingData whole_data(std::shared_ptr<const Dataset> dataset) {
  TrainingData data;
  data.num_examples = dataset->num_examples();
  data.fingerprint = data_fingerprint(*dataset);
  data.dataset = std::move(dataset);
  return data;
}

TrainingData join_shards(const TrainingData& own, Communicator& communicator, int num_servers) {
  // Each rank sends its ShardInfo and its class names.
  const ShardInfo own_note = note_of(own);
  const std::string own_names = joined_names(*own.dataset);
  Parcels mine;
  Parcels all;
  mine.append({reinterpret_cast<const std::uint8_t*>(&own_note), sizeof(own_note)});
  mine.append({reinterpret_cast<const std::uint8_t*>(own_names.data()), own_names.size()});
  communicator.all_gather(mine, all);
  TrainingData data;
  data.dataset = own.dataset;
  data.is_shard = true;
  Xxhash64 hash;
  ShardInfo first;
  std::string first_names;
  if (all.count() != 2 * static_cast<std::size_t>(communicator.size())) {
    TERNGRAD_THROW(CommunicationError, "[data] ", all.count(), " parcels tell of the shards of ", communicator.size(),
                   " ranks");
  }
  for (int rank = 0; rank < communicator.size() - num_servers; ++rank) {
    ShardInfo note;
    const std::span<const std::uint8_t> parcel = all.parcel(2 * static_cast<std::size_t>(rank));
    if (parcel.size() != sizeof(note)) {
      TERNGRAD_THROW(CommunicationError, "[data] rank ", rank, " tells of its shard in ", parcel.size(), " bytes");
    }
    std::memcpy(&note, parcel.data(), sizeof(note));
    const std::span<const std::uint8_t> named = all.parcel(2 * static_cast<std::size_t>(rank) + 1);
    const std::string names(named.begin(), named.end());
    if (rank == 0) {
      first = note;
      first_names = names;
    }
    if (note.shape != first.shape) {
      TERNGRAD_THROW(DataError, "--data_shards: rank 0 has ", shape_text(first), ", rank ", rank, " ", shape_text(note),
                     "; all shards must have the same");
    }
    require_same_classes(first_names, rank, names);
    data.num_examples += note.num_examples;
    hash.add(std::as_bytes(std::span(&note, 1)));
  }
  data.fingerprint = fmt::format("{:016x}", hash.value());
  return data;
}

std::string data_summary(const TrainingData& data, const Dataset* test_set) {
  const Dataset& set = *data.dataset;
  const std::string shards =
      data.is_shard ? fmt::format(" in shards ({} in this process's)", set.num_examples()) : std::string();
  const std::string test = test_set != nullptr ? fmt::format(" and {} test", test_set->num_examples()) : std::string();
  return fmt::format("data {}: {} x {} x {}, {} classes, {} training{}{} examples", set.name(), set.height(),
                     set.width(), set.channels(), set.num_classes(), data.num_examples, shards, test);
}

std::string shard_folder(const std::string& data_dir, int rank, int num_processes) {
  const int shard = rank < num_processes ? rank : 0;
  return (std::filesystem::path(data_dir) / fmt::format("worker_{}_of_{}", shard, num_processes)).string();
}

}  // namespace terngrad
