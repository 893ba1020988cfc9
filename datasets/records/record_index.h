// RecordIndex: position and label of each record in a subset's shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace terngrad {

/// A record in its shard: its frame begins at `offset` and has `length` bytes of data.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::int32_t label = 0;  // stored label
  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};

/// Places of all records, shard after shard. records()[i] is record i of the subset.
class RecordIndex {
 public:
  /// Size in bytes and records of a shard.
  struct Shard {
    std::uint64_t num_bytes = 0;
    std::vector<RecordPlace> records;
  };
  RecordIndex() = default;
  /// @param shards  all shards, in order
  /// @throws DataError, naming `name`, unless the records of each shard fill it without gaps
  RecordIndex(const std::string& name, const std::vector<Shard>& shards);

  const std::vector<RecordPlace>& records() const { return records_; }
  std::size_t num_shards() const { return shard_bytes_.size(); }
  std::uint64_t shard_bytes(std::size_t shard) const { return shard_bytes_[shard]; }
  /// The range [first, second) of a shard's records.
  std::pair<std::size_t, std::size_t> records_of(std::size_t shard) const {
    return {first_records_[shard], first_records_[shard + 1]};
  }
  std::size_t shard_of(std::size_t record) const;
  /// The index of some of the shards, in the order of their `numbers`.
  RecordIndex part(const std::vector<std::size_t>& numbers) const;

  /// Serializes to an index file, little-endian: "TGRECIDX", version 1 and the number of shards (4 bytes each); for
  /// each shard its bytes and number of records (8 each); for each record offset (8), length (4) and label (4); and the
  /// CRC-32C of all bytes before.
  std::string to_bytes() const;
  /// Parses an index file. @throws DataError, naming `name`, for content that to_bytes does not write
  static RecordIndex from_bytes(const std::string& name, std::span<const std::uint8_t> bytes);

 private:
  std::vector<std::uint64_t> shard_bytes_;
  std::vector<std::size_t> first_records_ = {0};  // first record of each shard, then the total number
  std::vector<RecordPlace> records_;
};

/// Indexes a shard by reading all its records. @throws DataError as index_shards
RecordIndex::Shard index_shard(const std::filesystem::path& path);

/// Indexes the shards by reading all records, with num_threads threads.
/// @throws DataError, naming shard, number of the record and offset, for a record that TfRecordReader or
/// parse_image_example rejects
RecordIndex index_shards(const std::vector<std::filesystem::path>& shards, int num_threads);

/// Reads an index file of these shards, or of all shards that they are a part of (shard_number).
/// @throws DataError if it is damaged or the sizes of the shards differ from it
RecordIndex read_index_file(const std::filesystem::path& path, const std::vector<std::filesystem::path>& shards);

}  // namespace terngrad
