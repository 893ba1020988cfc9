#include "datasets/records/record_index.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "datasets/formats/image_example.h"
#include "datasets/formats/input_file.h"
#include "datasets/formats/tfrecord.h"
#include "datasets/records/shards.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad {
namespace {

constexpr std::string_view kMagic = "TGRECIDX";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kShardBytes = 16;   // size of a shard's entry
constexpr std::size_t kRecordBytes = 16;  // size of a record's entry
constexpr std::size_t kChecksumBytes = 4;

template <class Number>
void append(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

/// Reads the fields of an index file in order.
class IndexReader {
 public:
  IndexReader(const std::string& name, std::span<const std::uint8_t> bytes) : name_(name), bytes_(bytes) {}

  std::span<const std::uint8_t> take(std::size_t count) {
    if (count > bytes_.size()) refuse("is truncated");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <class Number>
  Number number() {
    const auto bytes = take(sizeof(Number));
    Number value = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) value |= static_cast<Number>(Number{bytes[i]} << (8 * i));
    return value;
  }
  std::size_t num_left() const { return bytes_.size(); }
  /// Call before allocating. @throws DataError unless `count` entries of `size` bytes fit in the rest of the file
  void require_room(std::uint64_t count, std::size_t size) const {
    if (count > bytes_.size() / size) refuse("is truncated");
  }
  [[noreturn]] void refuse(const std::string& problem) const {
    TERNGRAD_THROW(DataError, "'", name_, "' ", problem, ": make the index anew (terngrad_records index)");
  }

 private:
  const std::string& name_;
  std::span<const std::uint8_t> bytes_;
};

/// The number of all shards that these are a part of, by the first one's name.
std::size_t num_all_shards(const std::vector<std::filesystem::path>& shards) {
  return shards.empty() ? 0 : static_cast<std::size_t>(shard_number(shards.front()).num_shards);
}

std::vector<std::size_t> numbers_of(const std::vector<std::filesystem::path>& shards) {
  std::vector<std::size_t> numbers;
  numbers.reserve(shards.size());
  for (const auto& shard : shards) numbers.push_back(static_cast<std::size_t>(shard_number(shard).number));
  return numbers;
}

}  // namespace

RecordIndex::RecordIndex(const std::string& name, const std::vector<Shard>& shards) {
  for (const Shard& shard : shards) {
    std::uint64_t end = 0;
    for (const RecordPlace& place : shard.records) {
      if (place.offset != end || place.label < 0) {
        TERNGRAD_THROW(DataError, "'", name, "' is damaged: record ", records_.size(), " of shard ",
                       shard_bytes_.size(), ": expected offset ", end, " and a label from 0, found ", place.offset,
                       " and ", place.label);
      }
      end += place.length + kTfRecordFrameBytes;
      records_.push_back(place);
    }
    if (end != shard.num_bytes) {
      TERNGRAD_THROW(DataError, "'", name, "' is damaged: shard ", shard_bytes_.size(), ": its records have ", end,
                     " bytes, expected ", shard.num_bytes);
    }
    shard_bytes_.push_back(shard.num_bytes);
    first_records_.push_back(records_.size());
  }
}

std::size_t RecordIndex::shard_of(std::size_t record) const {
  const auto after = std::ranges::upper_bound(first_records_, record);
  return static_cast<std::size_t>(after - first_records_.begin()) - 1;
}

RecordIndex RecordIndex::part(const std::vector<std::size_t>& numbers) const {
  std::vector<Shard> shards;
  for (const std::size_t number : numbers) {
    const auto [first, beyond] = records_of(number);
    const auto begin = records_.begin();
    shards.push_back(
        {.num_bytes = shard_bytes_[number],
         .records = {begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(beyond)}});
  }
  return RecordIndex("part", shards);
}

std::string RecordIndex::to_bytes() const {
  std::string bytes(kMagic);
  bytes.reserve(kMagic.size() + 8 + kShardBytes * num_shards() + kRecordBytes * records_.size() + kChecksumBytes);
  append(bytes, kVersion);
  append(bytes, static_cast<std::uint32_t>(num_shards()));
  for (std::size_t shard = 0; shard < num_shards(); ++shard) {
    const auto [first, beyond] = records_of(shard);
    append(bytes, shard_bytes_[shard]);
    append(bytes, std::uint64_t{beyond - first});
  }
  for (const RecordPlace& place : records_) {
    append(bytes, place.offset);
    append(bytes, place.length);
    append(bytes, static_cast<std::uint32_t>(place.label));
  }
  append(bytes, crc32c({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
  return bytes;
}

RecordIndex RecordIndex::from_bytes(const std::string& name, std::span<const std::uint8_t> bytes) {
  IndexReader reader(name, bytes);
  if (!std::ranges::equal(reader.take(kMagic.size()), kMagic,
                          [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); })) {
    reader.refuse("is no index of records");
  }
  if (const auto version = reader.number<std::uint32_t>(); version != kVersion) {
    reader.refuse("has version " + std::to_string(version) + ", expected " + std::to_string(kVersion));
  }
  const auto num_shards = reader.number<std::uint32_t>();
  reader.require_room(num_shards, kShardBytes);
  std::vector<Shard> shards(num_shards);
  std::vector<std::uint64_t> counts;
  std::uint64_t num_records = 0;
  for (Shard& shard : shards) {
    shard.num_bytes = reader.number<std::uint64_t>();
    counts.push_back(reader.number<std::uint64_t>());
    reader.require_room(counts.back(), kRecordBytes);
    num_records += counts.back();
  }
  if (num_records > reader.num_left() / kRecordBytes ||
      reader.num_left() != num_records * kRecordBytes + kChecksumBytes) {
    reader.refuse("is truncated or has trailing bytes");
  }
  for (std::size_t s = 0; s < shards.size(); ++s) {
    shards[s].records.reserve(counts[s]);
    for (std::uint64_t i = 0; i < counts[s]; ++i) {
      RecordPlace place;
      place.offset = reader.number<std::uint64_t>();
      place.length = reader.number<std::uint32_t>();
      place.label = static_cast<std::int32_t>(reader.number<std::uint32_t>());
      shards[s].records.push_back(place);
    }
  }
  if (reader.number<std::uint32_t>() != crc32c(bytes.first(bytes.size() - kChecksumBytes))) {
    reader.refuse("is damaged: its checksum is another");
  }
  return RecordIndex(name, shards);
}

RecordIndex::Shard index_shard(const std::filesystem::path& path) {
  TfRecordReader reader(path);
  RecordIndex::Shard shard;
  std::vector<std::uint8_t> data;
  while (reader.next(data)) {
    try {
      const ImageExample example = parse_image_example(data);
      shard.records.push_back({reader.offset(), static_cast<std::uint32_t>(data.size()), example.label});
    } catch (const DataError& error) {
      TERNGRAD_THROW(DataError, "'", path.string(), "': record ", reader.number(), " at byte ", reader.offset(), ": ",
                     error.what());
    }
  }
  shard.num_bytes = reader.offset() + data.size() + kTfRecordFrameBytes;
  return shard;
}

RecordIndex index_shards(const std::vector<std::filesystem::path>& shards, int num_threads) {
  std::vector<RecordIndex::Shard> found(shards.size());
  parallel_for(num_threads, static_cast<std::int64_t>(shards.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto s = static_cast<std::size_t>(begin); s < static_cast<std::size_t>(end); ++s)
      found[s] = index_shard(shards[s]);
  });
  return RecordIndex("index", found);
}

RecordIndex read_index_file(const std::filesystem::path& path, const std::vector<std::filesystem::path>& shards) {
  RecordIndex index = RecordIndex::from_bytes(path.string(), InputFile(path).read_all());
  if (index.num_shards() != shards.size() && index.num_shards() == num_all_shards(shards)) {
    index = index.part(numbers_of(shards));
  }
  if (index.num_shards() != shards.size()) {
    TERNGRAD_THROW(DataError, "'", path.string(), "' is of other files: it has ", index.num_shards(),
                   " shards, there are ", shards.size(), ": make the index anew (terngrad_records index)");
  }
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const std::uint64_t num_bytes = InputFile(shards[s]).num_bytes();
    if (num_bytes == index.shard_bytes(s)) continue;
    TERNGRAD_THROW(DataError, "'", path.string(), "' is of other files: '", shards[s].string(), "' has ", num_bytes,
                   " bytes, expected ", index.shard_bytes(s), ": make the index anew (terngrad_records index)");
  }
  return index;
}

}  // namespace terngrad
