// Looking at records: what is damaged, and what a set consists of.
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
  std::uint64_t number = 0;  // of the record in its shard
  std::string problem;       // names the shard
};

struct RecordCheck {
  std::uint64_t num_good = 0;
  std::vector<BadRecord> bad;  // in the order of shards and records
};

/// Reads every record of the shards: checksums, the Example and the image's header; with `decode` its pixels too. A
/// shard whose framing is damaged is not read any further, unless the subset has an index file that fits, which says
/// where the next record begins.
/// @param index  path of the index file, which may be missing
/// @throws DataError for a shard that cannot be opened, or an index that does not fit
RecordCheck check_records(const std::vector<std::filesystem::path>& shards, const std::filesystem::path& index,
                          bool decode, int num_threads);

/// Copies the good records of a subset to a folder, into shards of the same names, and makes their index.
/// @param decode  as check_records
/// @returns what check_records says
/// @throws DataError as check_records, and if `to` holds shards of the subset, a shard has no good record, or a file
/// cannot be written
RecordCheck copy_good_records(const std::string& from, const std::string& to, Subset subset, bool decode,
                              int num_threads);

/// Counts of a subset, from its index.
struct RecordStatistics {
  std::size_t num_shards = 0;
  std::size_t num_records = 0;
  std::uint64_t num_bytes = 0;  // of the shards
  std::uint32_t min_bytes = 0;  // of a record
  std::uint32_t median_bytes = 0;
  std::uint32_t max_bytes = 0;
  std::map<std::int32_t, std::size_t> records_of_label = {};
};
RecordStatistics record_statistics(const std::string& folder, Subset subset, int num_threads);

/// What a record holds: the place, then a line for each key that is there.
std::string to_text(const std::string& place, const ImageExample& example);

}  // namespace terngrad
