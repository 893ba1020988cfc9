#include "trainers/records/shard_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "datasets/formats/input_file.h"
#include "datasets/formats/tfrecord.h"
#include "datasets/records/record_index.h"
#include "datasets/records/record_store.h"
#include "datasets/records/shards.h"
#include "datasets/shuffle.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/crc32c.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxShards = 99'999;

/// CRC-32C of the images' keys in order, which identifies the images of a build.
std::uint32_t fingerprint(const ImageSource& source) {
  std::string keys;
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    keys = fmt::format("{:08x}{}", crc, source.key(i));
    crc = crc32c({reinterpret_cast<const std::uint8_t*>(keys.data()), keys.size()});
  }
  return crc;
}

std::string subset_text(const ImageSource* source, Subset subset, int num_shards) {
  if (source == nullptr) return fmt::format("{}: none\n", subset_name(subset));
  return fmt::format("{}: {} images in {} shards, fingerprint {:08x}\n", subset_name(subset), source->size(),
                     num_shards, fingerprint(*source));
}

/// Content of build.txt, which identifies the build of the shards in a folder.
std::string build_text(const ImageSources& sources, const ShardBuild& build) {
  return "terngrad_records build, version 1\n" + subset_text(sources.train.get(), Subset::kTrain, build.train_shards) +
         subset_text(sources.test.get(), Subset::kTest, build.test_shards) +
         (sources.is_shuffled ? fmt::format("seed: {}\n", build.seed) : "order: of the source\n");
}

/// Writes build.txt, or checks that it belongs to the same build.
void begin_build(const ImageSources& sources, const ShardBuild& build) {
  std::error_code error;
  fs::create_directories(build.folder, error);
  if (error) TERNGRAD_THROW(DataError, "'", build.folder, "' cannot be made: ", error.message());
  const fs::path path = fs::path(build.folder) / "build.txt";
  const std::string text = build_text(sources, build);
  if (!path_exists(path)) {
    if (has_shards(build.folder, Subset::kTrain) || has_shards(build.folder, Subset::kTest)) {
      TERNGRAD_THROW(DataError, "'", build.folder, "' holds shards already, and no build.txt says of what");
    }
    return write_file_atomically(path, text);
  }
  const std::string found = read_file_text(path);
  if (found == text) return;
  // Find the first line that differs.
  const auto same = std::ranges::mismatch(text, found);
  const auto line_of = [](const std::string& of, std::string::const_iterator at) {
    const std::size_t place = static_cast<std::size_t>(at - of.begin());
    const std::size_t begin = place == 0 ? 0 : of.rfind('\n', place - 1) + 1;
    return of.substr(begin, of.find('\n', begin) - begin);
  };
  TERNGRAD_THROW(DataError, "'", build.folder,
                 "' holds the shards of another build, or a part of them: build.txt has '", line_of(found, same.in2),
                 "', this build is of '", line_of(text, same.in1), "'; give another folder, or remove this one");
}

/// Writes one shard. @returns its entry for the index
RecordIndex::Shard write_shard(const fs::path& path, const ImageSource& source, std::span<const std::uint32_t> images) {
  RecordIndex::Shard shard;
  const Folder folder = Folder::of(path);
  write_file_atomically(folder, path.filename().string(), [&](const WritePiece& write) {
    for (const std::uint32_t image : images) {
      const ImageExample example = source.example(image);
      const std::string data = serialize_image_example(example);
      if (data.size() > kMaxTfRecordBytes) {
        TERNGRAD_THROW(DataError, "'", source.name(image), "' has ", data.size(), " bytes, a record at most ",
                       kMaxTfRecordBytes);
      }
      shard.records.push_back(
          {.offset = shard.num_bytes, .length = static_cast<std::uint32_t>(data.size()), .label = example.label});
      const std::string record = tfrecord(data);
      write(std::as_bytes(std::span(record)));
      shard.num_bytes += record.size();
    }
  });
  return shard;
}

void build_subset(const ImageSource& source, const ShardBuild& build, Subset subset, bool is_shuffled,
                  const std::function<void(const BuildProgress&)>& progress) {
  const bool is_train = subset == Subset::kTrain;
  const int num_shards = is_train ? build.train_shards : build.test_shards;
  const std::size_t count = source.size();
  if (count < static_cast<std::size_t>(num_shards) || count > static_cast<std::size_t>(kMaxShuffledExamples)) {
    TERNGRAD_THROW(DataError, "the ", is_train ? "training" : "test", " subset has ", count, " images, which do not ",
                   "fill ", num_shards, " shards: each needs one at least");
  }
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (is_shuffled) epoch_permutation(build.seed, is_train ? 0 : 1, static_cast<std::int64_t>(count), order);
  std::vector<RecordIndex::Shard> shards(static_cast<std::size_t>(num_shards));
  BuildProgress done{.subset = subset, .num_shards = num_shards};
  std::mutex mutex;
  parallel_for(build.num_threads, num_shards, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const fs::path path = fs::path(build.folder) / shard_name(subset, static_cast<int>(s), num_shards);
      const std::size_t first = count * static_cast<std::size_t>(s) / static_cast<std::size_t>(num_shards);
      const std::size_t beyond = count * static_cast<std::size_t>(s + 1) / static_cast<std::size_t>(num_shards);
      const bool is_there = path_exists(path);
      RecordIndex::Shard& shard = shards[static_cast<std::size_t>(s)];
      shard = is_there ? index_shard(path) : write_shard(path, source, std::span(order).subspan(first, beyond - first));
      const std::lock_guard lock(mutex);
      ++done.num_done;
      if (!is_there) done.bytes += shard.num_bytes;
      if (progress) progress(done);
    }
  });
  const fs::path path = index_path(build.folder, subset);
  write_file_atomically(path, RecordIndex(path.string(), shards).to_bytes());
}

}  // namespace

void build_shards(const ImageSources& sources, const ShardBuild& build,
                  const std::function<void(const BuildProgress&)>& progress) {
  for (const int num_shards : {build.train_shards, build.test_shards}) {
    TERNGRAD_REQUIRE(num_shards >= 1 && num_shards <= kMaxShards, "[build_shards] there must be 1 to ", kMaxShards,
                     " shards, got ", num_shards);
  }
  begin_build(sources, build);
  if (!sources.names.empty()) write_file_atomically(fs::path(build.folder) / "labels.txt", to_text(sources.names));
  if (sources.train != nullptr) build_subset(*sources.train, build, Subset::kTrain, sources.is_shuffled, progress);
  if (sources.test != nullptr) build_subset(*sources.test, build, Subset::kTest, sources.is_shuffled, progress);
}

std::size_t make_index_file(const std::string& folder, Subset subset, int num_threads) {
  const RecordIndex index = index_shards(find_shards(folder, subset), num_threads);
  write_file_atomically(index_path(folder, subset), index.to_bytes());
  return index.records().size();
}

}  // namespace terngrad
