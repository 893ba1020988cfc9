// RecordStore: the records of a subset by their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/formats/image_example.h"
#include "datasets/formats/tfrecord.h"
#include "datasets/records/record_index.h"

namespace terngrad {

/// Subsets of up to this many bytes that have no index file are indexed when they are opened, which reads them whole.
inline constexpr std::uint64_t kMaxBytesWithoutIndex = std::uint64_t{1} << 30;

/// "train.index" or "validation.index": the index file beside a subset's shards.
std::filesystem::path index_path(const std::filesystem::path& folder, Subset subset);

/// Shards with their index. Records are read when they are asked for; nothing of them is kept. Shards are opened when
/// they are first read, and at most kMaxOpenShards at a time.
class RecordStore {
 public:
  static constexpr std::size_t kMaxOpenShards = 256;

  /// Finds the subset's shards and their index: of the file index_path, or where there is none of the shards.
  /// @param num_threads  that read shards without an index
  /// @throws DataError as find_shards, read_index_file and index_shards, and for a subset without an index that is
  /// larger than kMaxBytesWithoutIndex
  RecordStore(const std::filesystem::path& folder, Subset subset, int num_threads);

  std::size_t size() const { return index_.records().size(); }
  /// As it is stored.
  std::int32_t label(std::size_t record) const { return index_.records()[record].label; }
  const RecordIndex& index() const { return index_; }
  /// "data/train-00003-of-01024, record 17 at byte 1234567": which record of its shard, from 0.
  std::string place(std::size_t record) const;

  /// Asks the system to fetch a record that read() will be called for. Returns at once.
  void will_read(std::size_t record) const;
  /// Examples of each shard.
  std::vector<std::int64_t> shard_sizes() const;
  /// Reads a record, with its checksums. Safe from several threads.
  /// @throws DataError, naming its place, if it cannot be read, is damaged, or has another label than the index
  ImageExample read(std::size_t record) const;

 private:
  std::shared_ptr<const TfRecordReader> reader_of(std::size_t shard) const;

  std::vector<std::filesystem::path> shards_;
  RecordIndex index_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const TfRecordReader>> readers_;  // by shard, null where it is not open
  mutable std::vector<std::size_t> open_;  // shards, in the order in which they were opened
};

}  // namespace terngrad
