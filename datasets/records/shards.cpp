#include "datasets/records/shards.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "datasets/formats/input_file.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

enum class ShardNaming { kPlain, kSlim, kSingle };

struct ShardFile {
  std::filesystem::path path;
  ShardNaming naming = ShardNaming::kPlain;
  int number = 0;
  int num_shards = 1;
};

/// Parses a number of at least five digits.
std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = text.size() >= 5 && text[0] != '-' && error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

/// Parses "00007-of-01024".
std::optional<ShardFile> parse_numbers(std::string_view text, ShardNaming naming) {
  const std::size_t at = text.find("-of-");
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<int> number = parse_number(text.substr(0, at));
  const std::optional<int> num_shards = parse_number(text.substr(at + 4));
  if (!number || !num_shards) return std::nullopt;
  return ShardFile{.path = {}, .naming = naming, .number = *number, .num_shards = *num_shards};
}

/// Parses the name of a shard of `subset`; nothing for other names.
std::optional<ShardFile> parse_name(std::string_view name, const std::string& subset) {
  constexpr std::string_view kSuffix = ".tfrecord";
  const std::string begin = subset + "-";
  if (!name.ends_with(kSuffix)) {
    return name.starts_with(begin) ? parse_numbers(name.substr(begin.size()), ShardNaming::kPlain) : std::nullopt;
  }
  name.remove_suffix(kSuffix.size());
  const std::string middle = "_" + subset + "_";
  if (const std::size_t at = name.rfind(middle); at != std::string_view::npos && at > 0) {
    if (auto file = parse_numbers(name.substr(at + middle.size()), ShardNaming::kSlim)) return file;
  }
  if (name.starts_with(begin) && name.size() > begin.size()) {
    return ShardFile{.path = {}, .naming = ShardNaming::kSingle};
  }
  return std::nullopt;
}

std::vector<ShardFile> list_shards(const std::filesystem::path& folder, const std::string& subset) {
  std::error_code error;
  std::vector<ShardFile> files;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::optional<ShardFile> file = parse_name(at->path().filename().string(), subset);
    if (!file) continue;
    file->path = at->path();
    files.push_back(*std::move(file));
  }
  if (error) TERNGRAD_THROW(DataError, "'", folder.string(), "' cannot be listed: ", error.message());
  std::ranges::sort(files, [](const ShardFile& a, const ShardFile& b) {
    return a.number != b.number ? a.number < b.number : a.path.filename() < b.path.filename();
  });
  return files;
}

/// The training shards, or those of the test subset, which has two names.
std::vector<ShardFile> list_subset(const std::filesystem::path& folder, Subset subset) {
  std::vector<ShardFile> files = list_shards(folder, subset_name(subset));
  if (files.empty() && subset == Subset::kTest) files = list_shards(folder, "test");
  return files;
}

/// list_subset, or for the test subset of a worker's part that of the folder which it links to.
std::vector<ShardFile> list_subset_or_linked(const std::filesystem::path& folder, Subset subset) {
  std::vector<ShardFile> files = list_subset(folder, subset);
  if (!files.empty() || subset == Subset::kTrain) return files;
  const std::optional<std::filesystem::path> linked = linked_folder(folder);
  return linked ? list_subset(*linked, subset) : files;
}

/// True for a folder that may have some of the shards only.
bool is_part(const std::filesystem::path& folder, const std::vector<ShardFile>& files) {
  const std::string name = std::filesystem::absolute(folder / "").lexically_normal().parent_path().filename().string();
  unsigned worker = 0;
  unsigned num_workers = 0;
  char rest = 0;
  if (std::sscanf(name.c_str(), "worker_%u_of_%u%c", &worker, &num_workers, &rest) == 2) return true;
  std::error_code ignored;
  return std::ranges::all_of(files, [&](const ShardFile& f) { return std::filesystem::is_symlink(f.path, ignored); });
}

void check_part(const std::filesystem::path& folder, const std::vector<ShardFile>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].number < files[i].num_shards && (i == 0 || files[i - 1].number < files[i].number)) continue;
    TERNGRAD_THROW(DataError, "'", files[i].path.string(), "': expected a number below ", files[i].num_shards,
                   ", each once in '", folder.string(), "'");
  }
}

void check_numbers(const std::filesystem::path& folder, const std::vector<ShardFile>& files) {
  const ShardFile& first = files.front();
  for (const ShardFile& file : files) {
    if (file.naming == first.naming && file.num_shards == first.num_shards) continue;
    TERNGRAD_THROW(DataError, "'", folder.string(), "' has shards of two kinds: '", first.path.filename().string(),
                   "' and '", file.path.filename().string(), "'");
  }
  if (is_part(folder, files)) {
    check_part(folder, files);
    return;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto expected = static_cast<int>(i);
    if (files[i].number == expected && files[i].number < first.num_shards) continue;
    if (files[i].number > expected && expected < first.num_shards) {
      TERNGRAD_THROW(DataError, "'", folder.string(), "' lacks shard ", expected, " of ", first.num_shards, ": after '",
                     i == 0 ? "nothing" : files[i - 1].path.filename().string(), "' comes '",
                     files[i].path.filename().string(), "'");
    }
    TERNGRAD_THROW(DataError, "'", files[i].path.string(), "': expected shard ", expected, " of ", first.num_shards,
                   ", each once");
  }
  if (static_cast<int>(files.size()) != first.num_shards) {
    TERNGRAD_THROW(DataError, "'", folder.string(), "' lacks shard ", files.size(), " of ", first.num_shards,
                   ": the last is '", files.back().path.filename().string(), "'");
  }
}

}  // namespace

std::vector<std::filesystem::path> find_shards(const std::filesystem::path& folder, Subset subset) {
  std::vector<ShardFile> files = list_subset_or_linked(folder, subset);
  if (files.empty()) {
    TERNGRAD_THROW(DataError, "'", folder.string(), "' has no shards of the ",
                   subset == Subset::kTrain ? "training" : "test", " subset: expected ", shard_name(subset, 0, 8),
                   " and so on, or ", subset_name(subset), "-NAME.tfrecord");
  }
  check_numbers(files.front().path.parent_path(), files);
  std::vector<std::filesystem::path> paths;
  paths.reserve(files.size());
  for (ShardFile& file : files) paths.push_back(std::move(file.path));
  return paths;
}

bool has_shards(const std::filesystem::path& folder, Subset subset) {
  return !list_subset_or_linked(folder, subset).empty();
}

std::optional<std::filesystem::path> linked_folder(const std::filesystem::path& folder) {
  const std::vector<ShardFile> files = list_subset(folder, Subset::kTrain);
  if (files.empty() || !std::filesystem::is_symlink(files.front().path)) return std::nullopt;
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(files.front().path, error);
  return error ? std::nullopt : std::optional(target.parent_path());
}

std::filesystem::path file_beside_shards(const std::filesystem::path& folder, const std::string& name) {
  std::filesystem::path path = folder / name;
  if (path_exists(path)) return path;
  const std::optional<std::filesystem::path> linked = linked_folder(folder);
  if (linked && path_exists(*linked / name)) path = *linked / name;
  return path;
}

ShardNumber shard_number(const std::filesystem::path& shard) {
  const std::string name = shard.filename().string();
  for (const char* const subset : {"train", "validation", "test"}) {
    if (const auto file = parse_name(name, subset)) return {file->number, file->num_shards};
  }
  return {};
}

std::string shard_name(Subset subset, int number, int num_shards) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "-%05d-of-%05d", number, num_shards);
  return subset_name(subset) + std::string(numbers);
}

const char* subset_name(Subset subset) { return subset == Subset::kTrain ? "train" : "validation"; }

}  // namespace terngrad
