#include "trainers/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/file_descriptor.h"
#include "trainers/io/xxhash64.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kFormatVersion = "1";
constexpr const char* kReservedKeys[] = {
    "format_version", "step", "net", "layout_fingerprint", "optimizer", "num_workers", "seed", "dataset", "checksum"};

std::string to_hex(std::uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

// nullopt unless the whole text is a number in the given base.
template <class Number>
std::optional<Number> to_number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void add_text(Xxhash64& hash, std::string_view text) { hash.add(std::uint64_t{text.size()}).add(text); }

std::string state_checksum(const TensorMetadata& metadata, std::span<const TensorRecord> tensors) {
  Xxhash64 hash;
  for (const auto& [key, value] : metadata) {
    if (key == "checksum") continue;
    add_text(hash, key);
    add_text(hash, value);
  }
  std::vector<const TensorRecord*> by_name;
  for (const TensorRecord& tensor : tensors) by_name.push_back(&tensor);
  std::ranges::sort(by_name, {}, &TensorRecord::name);
  for (const TensorRecord* tensor : by_name) {
    add_text(hash, tensor->name);
    add_text(hash, tensor_type_name(tensor->type));
    hash.add(std::uint64_t{tensor->shape.size()});
    for (const std::int64_t dimension : tensor->shape) hash.add(static_cast<std::uint64_t>(dimension));
    hash.add(tensor->bytes);
  }
  return to_hex(hash.value());
}

TensorMetadata to_metadata(const CheckpointView& view) {
  const CheckpointState& state = view.state;
  TensorMetadata metadata = state.extra_metadata;
  for (const char* key : kReservedKeys) {
    TERNGRAD_REQUIRE(!metadata.contains(key), "[save_checkpoint] the name '", key, "' is reserved");
  }
  metadata["format_version"] = kFormatVersion;
  metadata["step"] = std::to_string(state.step);
  metadata["net"] = state.net;
  metadata["layout_fingerprint"] = to_hex(view.layout->fingerprint());
  metadata["optimizer"] = state.optimizer;
  metadata["num_workers"] = std::to_string(state.num_workers);
  metadata["seed"] = std::to_string(state.seed);
  metadata["dataset"] = state.dataset;
  return metadata;
}

std::vector<TensorRecord> to_records(const CheckpointView& view) {
  std::vector<TensorRecord> records;
  for (const CheckpointGroup& group : view.groups) {
    // Tensor names may contain slashes, so no group may be a prefix of another one.
    for (const CheckpointGroup& other : view.groups) {
      TERNGRAD_REQUIRE(!other.name.starts_with(group.name + "/"), "[save_checkpoint] group '", other.name,
                       "' lies inside group '", group.name, "'");
    }
    const Layout& layout = group.layout != nullptr ? *group.layout : *view.layout;
    TERNGRAD_REQUIRE(std::cmp_equal(group.values.size(), layout.flat_elements()), "[save_checkpoint] group '",
                     group.name, "' has ", group.values.size(), " elements, its layout ", layout.flat_elements());
    for (const Segment& segment : layout.segments()) {
      const auto values = group.values.subspan(static_cast<std::size_t>(segment.offset),
                                               static_cast<std::size_t>(segment.num_elements));
      records.push_back({.name = group.name + "/" + segment.name,
                         .type = TensorType::kF32,
                         .shape = segment.shape,
                         .bytes = std::as_bytes(values)});
    }
  }
  return records;
}

// The step in a checkpoint's file name; nullopt for other names.
std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  const std::optional<std::uint64_t> step = to_number<std::uint64_t>(digits);
  if (!step || checkpoint_path("", *step).string() != name) return std::nullopt;
  return step;
}

std::vector<CheckpointFile> to_checkpoint_files(const std::vector<std::string>& names, const fs::path& directory) {
  std::vector<CheckpointFile> files;
  for (const std::string& name : names) {
    if (const std::optional<std::uint64_t> step = step_of(name)) files.push_back({*step, directory / name});
  }
  std::ranges::sort(files, {}, &CheckpointFile::step);
  return files;
}

std::optional<CheckpointFile> newest_of(const std::vector<CheckpointFile>& files) {
  if (files.empty()) return std::nullopt;
  return files.back();
}

void remove_older(const Folder& folder, std::uint64_t step, int keep_last) {
  std::vector<CheckpointFile> files = list_checkpoints(folder);
  std::erase_if(files, [&](const CheckpointFile& file) { return file.step > step; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_last) < files.size(); ++i) {
    folder.remove(files[i].path.filename().string());
  }
}

}  // namespace

Checkpoint::Checkpoint(SafetensorsFile file) : file_(std::move(file)) {
  const std::string version = metadata("format_version");
  if (version != kFormatVersion) {
    TERNGRAD_THROW(DataError, "checkpoint '", source(), "': format_version is '", version, "', this program reads '",
                   kFormatVersion, "'");
  }
  verify_checksum();
  const auto number = [&]<class Number>(const char* key, Number& value, int base = 10) {
    const std::optional<Number> parsed = to_number<Number>(metadata(key), base);
    if (!parsed) TERNGRAD_THROW(DataError, "checkpoint '", source(), "': ", key, " is '", metadata(key), "'");
    value = *parsed;
  };
  number("step", state_.step);
  number("num_workers", state_.num_workers);
  number("seed", state_.seed);
  number("layout_fingerprint", layout_fingerprint_, 16);
  state_.net = metadata("net");
  state_.dataset = metadata("dataset");
  state_.optimizer = metadata("optimizer");
  state_.extra_metadata = file_.metadata();
  for (const char* key : kReservedKeys) state_.extra_metadata.erase(key);
}

std::string Checkpoint::metadata(const std::string& key) const {
  const auto entry = file_.metadata().find(key);
  if (entry == file_.metadata().end()) {
    TERNGRAD_THROW(DataError, "checkpoint '", source(), "': __metadata__ has no ", key);
  }
  return entry->second;
}

void Checkpoint::verify_checksum() const {
  const std::string expected = metadata("checksum");
  const std::string found = state_checksum(file_.metadata(), file_.tensors());
  if (expected != found) {
    TERNGRAD_THROW(DataError, "checkpoint '", source(), "' is damaged: its checksum is ", expected,
                   " but its content has ", found);
  }
}

bool Checkpoint::has_group(std::string_view group) const {
  const std::string prefix = std::string(group) + "/";
  return std::ranges::any_of(tensors(), [&](const TensorRecord& tensor) { return tensor.name.starts_with(prefix); });
}

const TensorRecord& Checkpoint::matching(std::string_view group, const Segment& segment) const {
  const std::string name = std::string(group) + "/" + segment.name;
  const TensorRecord* tensor = file_.find(name);
  const std::string expected = describe_tensor(TensorType::kF32, segment.shape);
  if (tensor == nullptr) {
    TERNGRAD_THROW(DataError, "checkpoint '", source(), "' (net ", state_.net, ") does not fit: expected tensor '",
                   name, "' ", expected, ", found none of that name");
  }
  if (tensor->type != TensorType::kF32 || tensor->shape != segment.shape) {
    TERNGRAD_THROW(DataError, "checkpoint '", source(), "' (net ", state_.net, ") does not fit: expected tensor '",
                   name, "' ", expected, ", found ", describe_tensor(tensor->type, tensor->shape));
  }
  return *tensor;
}

void Checkpoint::check_matches(const Layout& layout, std::string_view group) const {
  const std::string prefix = std::string(group) + "/";
  std::set<std::string> expected_names;
  for (const Segment& segment : layout.segments()) expected_names.insert(matching(group, segment).name);
  for (const TensorRecord& tensor : tensors()) {
    if (tensor.name.starts_with(prefix) && !expected_names.contains(tensor.name)) {
      TERNGRAD_THROW(DataError, "checkpoint '", source(), "' (net ", state_.net, ") does not fit: found tensor '",
                     tensor.name, "' ", describe_tensor(tensor.type, tensor.shape), ", expected none of that name");
    }
  }
}

void Checkpoint::read_tensor(std::string_view group, const Segment& segment, std::span<float> values) const {
  TERNGRAD_REQUIRE(std::cmp_equal(values.size(), segment.num_elements), "[Checkpoint] tensor '", segment.name,
                   "' needs ", segment.num_elements, " elements, the buffer has ", values.size());
  const TensorRecord& tensor = matching(group, segment);
  if (!tensor.bytes.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
}

void Checkpoint::read_group(std::string_view group, const Layout& layout, std::span<float> values) const {
  TERNGRAD_REQUIRE(std::cmp_equal(values.size(), layout.flat_elements()), "[Checkpoint] group '", group, "' needs ",
                   layout.flat_elements(), " elements, the buffer has ", values.size());
  check_matches(layout, group);
  std::ranges::fill(values, 0.0f);
  for (const Segment& segment : layout.segments()) {
    read_tensor(
        group, segment,
        values.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements)));
  }
}

void Checkpoint::check_same_run(const RunIdentity& expected) const {
  terngrad::check_same_run(expected, recorded_identity(state_), "checkpoint '" + source() + "'");
}

fs::path checkpoint_path(const fs::path& directory, std::uint64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 10 - std::min<std::size_t>(10, digits.size()), '0');
  return directory / (std::string(kPrefix) + digits + std::string(kSuffix));
}

std::vector<CheckpointFile> list_checkpoints(const fs::path& directory) {
  std::error_code error;
  if (fs::status(directory, error).type() == fs::file_type::not_found) return {};
  return list_checkpoints(Folder(directory));
}

std::vector<CheckpointFile> list_checkpoints(const Folder& folder) {
  return to_checkpoint_files(folder.names(), folder.path());
}

std::optional<CheckpointFile> latest_checkpoint(const fs::path& directory) {
  return newest_of(list_checkpoints(directory));
}

std::optional<CheckpointFile> latest_checkpoint(const Folder& folder) { return newest_of(list_checkpoints(folder)); }

fs::path save_checkpoint(const fs::path& directory, const CheckpointView& view, int keep_last) {
  return save_checkpoint(Folder(directory), view, keep_last);
}

fs::path save_checkpoint(const Folder& folder, const CheckpointView& view, int keep_last) {
  TERNGRAD_REQUIRE(view.layout != nullptr, "[save_checkpoint] the net's layout is missing");
  TERNGRAD_REQUIRE(keep_last >= 0, "[save_checkpoint] keep_last must not be negative, got ", keep_last);
  const std::vector<TensorRecord> records = to_records(view);
  TensorMetadata metadata = to_metadata(view);
  metadata["checksum"] = state_checksum(metadata, records);
  // Before writing, as temporaries of killed runs may occupy the space that is needed now.
  remove_stale_temporaries(folder, kPrefix);
  const std::string name = checkpoint_path("", view.state.step).string();
  write_safetensors(folder, name, records, metadata);
  if (keep_last > 0) remove_older(folder, view.state.step, keep_last);
  return folder.path() / name;
}

Checkpoint parse_checkpoint(std::vector<std::byte> content, std::string source) {
  return Checkpoint(SafetensorsFile::parse(std::move(content), std::move(source)));
}

Checkpoint load_checkpoint(const fs::path& path) {
  const auto load = [](const fs::path& file) { return parse_checkpoint(read_file_bytes(file), file.string()); };
  std::string problem;
  try {
    return load(path);
  } catch (const DataError& error) {
    problem = error.what();
  }
  const std::optional<std::uint64_t> step = step_of(path.filename().string());
  std::vector<CheckpointFile> older;
  if (step) older = list_checkpoints(path.has_parent_path() ? path.parent_path() : fs::path("."));
  std::erase_if(older, [&](const CheckpointFile& file) { return file.step >= *step; });
  for (auto file = older.rbegin(); file != older.rend(); ++file) {
    try {
      load(file->path);
    } catch (const DataError&) {
      continue;
    }
    TERNGRAD_THROW(DataError, problem, "; the checkpoint before it is intact and can be used instead: '",
                   file->path.string(), "' (remove the damaged file to continue from there)");
  }
  throw DataError(problem);
}

}  // namespace terngrad
