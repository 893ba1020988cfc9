#include "datasets/records/record_store.h"

#include "datasets/formats/input_file.h"
#include "datasets/records/shards.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

RecordIndex open_index(const std::filesystem::path& folder, Subset subset,
                       const std::vector<std::filesystem::path>& shards, int num_threads) {
  const std::filesystem::path path = index_path_to_read(folder, subset);
  if (path_exists(path)) return read_index_file(path, shards);
  std::uint64_t num_bytes = 0;
  for (const std::filesystem::path& shard : shards) num_bytes += InputFile(shard).num_bytes();
  if (num_bytes > kMaxBytesWithoutIndex) {
    TERNGRAD_THROW(DataError, "'", path.string(), "' does not exist, and the ", shards.size(), " shards have ",
                   num_bytes, " bytes, which are too many to read at every start: make the index once with ",
                   "terngrad_records index '", folder.string(), "'");
  }
  return index_shards(shards, num_threads);
}

}  // namespace

std::filesystem::path index_path(const std::filesystem::path& folder, Subset subset) {
  return folder / (std::string(subset_name(subset)) + ".index");
}

std::filesystem::path index_path_to_read(const std::filesystem::path& folder, Subset subset) {
  return file_beside_shards(folder, index_path(folder, subset).filename().string());
}

RecordStore::RecordStore(const std::filesystem::path& folder, Subset subset, int num_threads)
    : shards_(find_shards(folder, subset)),
      index_(open_index(folder, subset, shards_, num_threads)),
      readers_(shards_.size()) {}

std::string RecordStore::place(std::size_t record) const {
  const std::size_t shard = index_.shard_of(record);
  return shards_[shard].string() + ", record " + std::to_string(record - index_.records_of(shard).first) + " at byte " +
         std::to_string(index_.records()[record].offset);
}

void RecordStore::will_read(std::size_t record) const {
  const RecordPlace& place = index_.records()[record];
  try {
    reader_of(index_.shard_of(record))->will_read(place.offset, place.length);
  } catch (const DataError&) {
    // read() reports a shard that cannot be opened.
  }
}

std::vector<std::int64_t> RecordStore::shard_sizes() const {
  std::vector<std::int64_t> sizes;
  for (std::size_t shard = 0; shard < index_.num_shards(); ++shard) {
    const auto [first, beyond] = index_.records_of(shard);
    sizes.push_back(static_cast<std::int64_t>(beyond - first));
  }
  return sizes;
}

ImageExample RecordStore::read(std::size_t record) const {
  TERNGRAD_REQUIRE(record < size(), "[records] record must be below ", size(), ", got ", record);
  // Reused between calls: an encoded image has about 100 KB.
  static thread_local std::vector<std::uint8_t> data;
  const RecordPlace& of_index = index_.records()[record];
  reader_of(index_.shard_of(record))->read_at(of_index.offset, of_index.length, data);
  try {
    ImageExample example = parse_image_example(data);
    if (example.label != of_index.label) {
      TERNGRAD_THROW(DataError, "image/class/label: expected ", of_index.label, " as the index says, found ",
                     example.label);
    }
    return example;
  } catch (const DataError& error) {
    TERNGRAD_THROW(DataError, "'", place(record), "': ", error.what());
  }
}

std::shared_ptr<const TfRecordReader> RecordStore::reader_of(std::size_t shard) const {
  const std::lock_guard lock(mutex_);
  if (readers_[shard] != nullptr) return readers_[shard];
  if (open_.size() == kMaxOpenShards) {
    // Close the shard that was opened first; threads that still read it keep it alive.
    readers_[open_.front()].reset();
    open_.erase(open_.begin());
  }
  readers_[shard] = std::make_shared<const TfRecordReader>(shards_[shard]);
  open_.push_back(shard);
  return readers_[shard];
}

}  // namespace terngrad
