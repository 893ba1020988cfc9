// Checks, copies and summarizes records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/formats/image_example.h"

namespace terngrad {

/// A record that cannot be used.
struct BadRecord {
  std::size_t shard = 0;
  std::uint64_t number = 0;  // number of the record in its shard
  std::string problem;       // message, names the shard
};

/// Result of a check.
struct RecordCheck {
  std::uint64_t num_good = 0;
  std::vector<BadRecord> bad;  // in the order of shards and records
};

/// Verifies every record of the shards: checksums, the Example and the image's header; with `decode` its pixels too.
/// After damaged framing the rest of the shard is skipped, unless a matching index file has the next place.
/// @param index  path of the index file, which need not exist
/// @throws DataError for a shard that cannot be opened, or an index that does not match
RecordCheck check_records(const std::vector<std::filesystem::path>& shards, const std::filesystem::path& index,
                          bool decode, int num_threads);

/// Copies the good records of a subset to shards of the same names in another folder, and creates their index. Copies
/// of a worker's part (find_shards) are numbered anew.
/// @param decode  see check_records
/// @returns the result of check_records
/// @throws DataError as check_records, and if `to` contains shards of the subset, a shard has no good record, or a file
/// cannot be written
RecordCheck copy_good_records(const std::string& from, const std::string& to, Subset subset, bool decode,
                              int num_threads);

/// Counts of a subset, from its index.
struct RecordStatistics {
  std::size_t num_shards = 0;
  std::size_t num_records = 0;
  std::uint64_t num_bytes = 0;  // size of the shards
  std::uint32_t min_bytes = 0;  // size of the smallest record
  std::uint32_t median_bytes = 0;
  std::uint32_t max_bytes = 0;
  std::map<std::int32_t, std::size_t> records_of_label = {};
};
/// Computes the statistics of a subset from its index.
RecordStatistics record_statistics(const std::string& folder, Subset subset, int num_threads);

/// Describes a record: its place, then a line per key that it has.
std::string to_text(const std::string& place, const ImageExample& example);

}  // namespace terngrad
