// RecordStore: random access to the records of a subset.
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

/// Subsets without an index file are indexed, by reading them whole, when they are opened, up to this size.
inline constexpr std::uint64_t kMaxBytesWithoutIndex = std::uint64_t{1} << 30;

/// The index file beside a subset's shards: train.index or validation.index.
std::filesystem::path index_path(const std::filesystem::path& folder, Subset subset);
/// The index file to read (file_beside_shards); it need not exist.
std::filesystem::path index_path_to_read(const std::filesystem::path& folder, Subset subset);

/// Shards with their index. Records are read on demand and not cached. Shards are opened on first use, at most
/// kMaxOpenShards at a time. Thread-safe.
class RecordStore {
 public:
  static constexpr std::size_t kMaxOpenShards = 256;

  /// Finds the subset's shards, and reads the index file index_path_to_read or, if there is none, indexes the shards.
  /// @param num_threads  threads that index shards
  /// @throws DataError as find_shards, read_index_file and index_shards, and for a subset without an index file that is
  /// larger than kMaxBytesWithoutIndex
  RecordStore(const std::filesystem::path& folder, Subset subset, int num_threads);

  std::size_t size() const { return index_.records().size(); }
  /// The stored label.
  std::int32_t label(std::size_t record) const { return index_.records()[record].label; }
  const RecordIndex& index() const { return index_; }
  /// Shard, number in the shard (from 0) and offset: "data/train-00003-of-01024, record 17 at byte 1234567".
  std::string place(std::size_t record) const;

  /// Prefetch hint for a later read(). Returns at once.
  void will_read(std::size_t record) const;
  /// Number of records in each shard.
  std::vector<std::int64_t> shard_sizes() const;
  /// Reads a record and verifies its checksums. Thread-safe.
  /// @throws DataError, naming its place, if it cannot be read, is damaged, or has another label than the index
  ImageExample read(std::size_t record) const;

 private:
  std::shared_ptr<const TfRecordReader> reader_of(std::size_t shard) const;

  std::vector<std::filesystem::path> shards_;
  RecordIndex index_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const TfRecordReader>> readers_;  // by shard, null if not open
  mutable std::vector<std::size_t> open_;                               // shards in the order in which they were opened
};

}  // namespace terngrad
