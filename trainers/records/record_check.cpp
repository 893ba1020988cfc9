#include "trainers/records/record_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "datasets/formats/image_file.h"
#include "datasets/formats/input_file.h"
#include "datasets/formats/tfrecord.h"
#include "datasets/records/record_index.h"
#include "datasets/records/record_store.h"
#include "datasets/records/shards.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

/// @throws DataError if training would refuse the record: invalid Example or image, or another label than in the index.
/// image/height and image/width of encoded images are ignored
void check_image(const std::vector<std::uint8_t>& data, bool decode, std::optional<std::int32_t> label) {
  const ImageExample example = parse_image_example(data);
  if (label && example.label != *label) {
    TERNGRAD_THROW(DataError, "image/class/label: expected ", *label, " as the index says, found ", example.label);
  }
  if (example.is_raw) return;
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(example.encoded.data()), example.encoded.size());
  read_image_header("image/encoded", bytes);
  if (decode) decode_image("image/encoded", bytes, 3);
}

/// Called with the data of each good record, in order; may be empty.
using ForGood = std::function<void(const std::vector<std::uint8_t>&)>;

/// Checks the records of a shard one after the other.
class ShardCheck {
 public:
  ShardCheck(std::size_t shard, const fs::path& path, bool decode, ForGood for_good)
      : shard_(shard), path_(path), decode_(decode), for_good_(std::move(for_good)) {}

  /// Reads records at the places in an index.
  RecordCheck by_index(std::span<const RecordPlace> places) {
    const TfRecordReader reader(path_);
    for (const RecordPlace& place : places) {
      take([&] {
        reader.read_at(place.offset, place.length, data_);
        check_read_record(place.label);
      });
      ++number_;
    }
    return std::move(result_);
  }

  /// Reads records sequentially up to the last, or to one with damaged framing.
  RecordCheck in_order() {
    TfRecordReader reader(path_);
    for (bool is_there = true; is_there; ++number_) {
      take([&] {
        is_there = reader.next(data_);
        if (is_there) check_read_record(std::nullopt);
        return is_there;
      });
      if (is_there && reader.num_read() <= number_) {
        result_.bad.back().problem += "; the rest of the shard was not read, which an index would allow";
        is_there = false;
      }
    }
    return std::move(result_);
  }

 private:
  /// Counts a record as bad if `read` throws DataError, and as good unless `read` returns false (no more records).
  /// Exceptions of for_good_ pass through.
  template <class Read>
  void take(const Read& read) {
    try {
      if constexpr (std::is_same_v<decltype(read()), bool>) {
        if (!read()) return;
      } else {
        read();
      }
    } catch (const DataError& error) {
      result_.bad.push_back({.shard = shard_, .number = number_, .problem = error.what()});
      return;
    }
    ++result_.num_good;
    if (for_good_) for_good_(data_);
  }

  /// @param label  label in the index
  void check_read_record(std::optional<std::int32_t> label) {
    try {
      check_image(data_, decode_, label);
    } catch (const DataError& error) {
      // Unlike here, the reader's own errors already name the record.
      TERNGRAD_THROW(DataError, "'", path_.string(), "', record ", number_, ": ", error.what());
    }
  }

  std::size_t shard_;
  const fs::path& path_;
  bool decode_;
  ForGood for_good_;
  std::vector<std::uint8_t> data_;
  std::uint64_t number_ = 0;
  RecordCheck result_;
};

std::optional<RecordIndex> index_if_there(const fs::path& path, const std::vector<fs::path>& shards) {
  return path_exists(path) ? std::optional(read_index_file(path, shards)) : std::nullopt;
}

RecordCheck check_shard(std::size_t shard, const fs::path& path, const std::optional<RecordIndex>& places, bool decode,
                        const ForGood& for_good) {
  ShardCheck check(shard, path, decode, for_good);
  if (!places) return check.in_order();
  const auto [first, beyond] = places->records_of(shard);
  return check.by_index(std::span(places->records()).subspan(first, beyond - first));
}

}  // namespace

RecordCheck check_records(const std::vector<fs::path>& shards, const fs::path& index, bool decode, int num_threads) {
  const std::optional<RecordIndex> places = index_if_there(index, shards);
  std::vector<RecordCheck> results(shards.size());
  parallel_for(num_threads, static_cast<std::int64_t>(shards.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto s = static_cast<std::size_t>(begin); s < static_cast<std::size_t>(end); ++s) {
      results[s] = check_shard(s, shards[s], places, decode, {});
    }
  });
  RecordCheck all;
  for (RecordCheck& result : results) {
    all.num_good += result.num_good;
    std::ranges::move(result.bad, std::back_inserter(all.bad));
  }
  return all;
}

RecordCheck copy_good_records(const std::string& from, const std::string& to, Subset subset, bool decode,
                              int num_threads) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) TERNGRAD_THROW(DataError, "'", to, "' cannot be made: ", error.message());
  if (has_shards(to, subset)) TERNGRAD_THROW(DataError, "'", to, "' holds shards of this subset already");
  const std::vector<fs::path> shards = find_shards(from, subset);
  const std::optional<RecordIndex> places = index_if_there(index_path_to_read(from, subset), shards);
  // The copies of a worker's part are a set of their own.
  const bool is_part = static_cast<int>(shards.size()) != shard_number(shards.front()).num_shards;
  const Folder folder(to);
  RecordCheck all;
  std::mutex mutex;
  // Each thread reads and writes one shard at a time.
  parallel_for(num_threads, static_cast<std::int64_t>(shards.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto s = static_cast<std::size_t>(begin); s < static_cast<std::size_t>(end); ++s) {
      RecordCheck result;
      write_file_atomically(
          folder,
          is_part ? shard_name(subset, static_cast<int>(s), static_cast<int>(shards.size()))
                  : shards[s].filename().string(),
          [&](const WritePiece& write) {
            const auto copy = [&](const std::vector<std::uint8_t>& data) {
              const std::string record = tfrecord({reinterpret_cast<const char*>(data.data()), data.size()});
              write(std::as_bytes(std::span(record)));
            };
            result = check_shard(s, shards[s], places, decode, copy);
            if (result.num_good == 0) {
              TERNGRAD_THROW(DataError, "'", shards[s].string(),
                             "' has no good record, and a shard needs one: ", result.bad[0].problem);
            }
          });
      const std::lock_guard lock(mutex);
      all.num_good += result.num_good;
      std::ranges::move(result.bad, std::back_inserter(all.bad));
    }
  });
  std::ranges::stable_sort(all.bad, {}, &BadRecord::shard);
  const RecordIndex copied = index_shards(find_shards(to, subset), num_threads);
  write_file_atomically(index_path(to, subset), copied.to_bytes());
  return all;
}

RecordStatistics record_statistics(const std::string& folder, Subset subset, int num_threads) {
  const RecordStore store(folder, subset, num_threads);
  const RecordIndex& index = store.index();
  RecordStatistics statistics{.num_shards = index.num_shards(), .num_records = store.size()};
  for (std::size_t s = 0; s < index.num_shards(); ++s) statistics.num_bytes += index.shard_bytes(s);
  std::vector<std::uint32_t> lengths;
  lengths.reserve(store.size());
  for (const RecordPlace& place : index.records()) {
    lengths.push_back(place.length);
    ++statistics.records_of_label[place.label];
  }
  std::ranges::sort(lengths);
  statistics.min_bytes = lengths.front();
  statistics.median_bytes = lengths[lengths.size() / 2];
  statistics.max_bytes = lengths.back();
  return statistics;
}

std::string to_text(const std::string& place, const ImageExample& example) {
  std::string text = place + "\n";
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<20} {}\n", key, value);
  };
  const auto is_png = example.encoded.starts_with("\x89PNG");
  add("image/encoded", fmt::format("{} bytes, {}", example.encoded.size(),
                                   example.is_raw ? "raw"
                                   : is_png       ? "PNG"
                                                  : "JPEG"));
  add("image/class/label", fmt::format("{}", example.label));
  add("image/class/text", example.class_text);
  add("image/class/synset", example.synset);
  add("image/filename", example.filename);
  if (example.height > 0) add("image/height", fmt::format("{}", example.height));
  if (example.width > 0) add("image/width", fmt::format("{}", example.width));
  for (const BoundingBox& box : example.boxes) {
    add("image/object/bbox",
        fmt::format("x {:.4f} to {:.4f}, y {:.4f} to {:.4f}", box.x_min, box.x_max, box.y_min, box.y_max));
  }
  return text;
}

}  // namespace terngrad
