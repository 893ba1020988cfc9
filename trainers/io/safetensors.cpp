#include "trainers/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr std::size_t kLengthBytes = 8;
// The reference implementation's limit; it keeps a damaged length from allocating all memory.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr char kMetadataKey[] = "__metadata__";

struct TypeRow {
  TensorType type;
  std::string_view name;
  std::int64_t num_bytes;
};
constexpr std::array<TypeRow, 13> kTypes = {{{TensorType::kBool, "BOOL", 1},
                                             {TensorType::kU8, "U8", 1},
                                             {TensorType::kI8, "I8", 1},
                                             {TensorType::kU16, "U16", 2},
                                             {TensorType::kI16, "I16", 2},
                                             {TensorType::kF16, "F16", 2},
                                             {TensorType::kBf16, "BF16", 2},
                                             {TensorType::kU32, "U32", 4},
                                             {TensorType::kI32, "I32", 4},
                                             {TensorType::kF32, "F32", 4},
                                             {TensorType::kU64, "U64", 8},
                                             {TensorType::kI64, "I64", 8},
                                             {TensorType::kF64, "F64", 8}}};

const TypeRow& type_row(TensorType type) { return kTypes.at(static_cast<std::size_t>(type)); }

// Bytes of a dense tensor; nullopt if the number does not fit 63 bits or a dimension is negative.
std::optional<std::int64_t> dense_bytes(TensorType type, std::span<const std::int64_t> shape) {
  if (std::ranges::any_of(shape, [](std::int64_t dimension) { return dimension < 0; })) return std::nullopt;
  std::int64_t num_bytes = tensor_type_bytes(type);
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(num_bytes, dimension, &num_bytes)) return std::nullopt;
  }
  return num_bytes;
}

void check_records(std::span<const TensorRecord> records) {
  std::set<std::string_view> names;
  for (const TensorRecord& record : records) {
    TERNGRAD_REQUIRE(!record.name.empty() && record.name != kMetadataKey, "[safetensors] a tensor cannot be called '",
                     record.name, "'");
    TERNGRAD_REQUIRE(names.insert(record.name).second, "[safetensors] two tensors are called '", record.name, "'");
    const std::optional<std::int64_t> need = dense_bytes(record.type, record.shape);
    TERNGRAD_REQUIRE(need && std::cmp_equal(*need, record.bytes.size()), "[safetensors] tensor '", record.name, "' is ",
                     describe_tensor(record.type, record.shape), " but has ", record.bytes.size(), " bytes");
  }
}

// Parses a header's JSON into records; errors name the file and the field.
class HeaderReader {
 public:
  HeaderReader(const std::string& source, std::span<const std::byte> data, OtherTypes others)
      : source_(source), data_(data), others_(others) {}

  void read(std::string_view text) {
    if (!text.starts_with('{')) fail("the header is not a JSON object");
    // The JSON library stops at a zero byte, which would hide the text after it.
    if (text.find('\0') != std::string_view::npos) fail("the header holds a zero byte");
    const nlohmann::json header = parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadataKey) {
        read_metadata(entry);
      } else {
        read_tensor(name, entry);
      }
    }
    order_and_check_coverage();
    for (const TensorRecord& record : tensors) {
      const auto found = other_types_.find(record.name);
      if (found != other_types_.end()) left_out.push_back("'" + record.name + "' (" + found->second + ")");
    }
    std::erase_if(tensors, [&](const TensorRecord& record) { return other_types_.contains(record.name); });
  }

  TensorMetadata metadata;
  std::vector<TensorRecord> tensors;
  std::vector<std::string> left_out;

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    TERNGRAD_THROW(DataError, "'", source_, "' is not a valid safetensors file: ", parts...);
  }

  nlohmann::json parse(std::string_view text) const {
    // The JSON library keeps the last of two equal names, so refuse the ambiguity here.
    std::vector<std::set<std::string>> names;
    const auto check_names = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
      using Event = nlohmann::json::parse_event_t;
      if (depth > 4) fail("the header is nested too deeply");
      if (event == Event::object_start) names.emplace_back();
      if (event == Event::object_end) names.pop_back();
      if (event == Event::key && !names.back().insert(value.get<std::string>()).second) {
        fail("the name '", value.get<std::string>(), "' occurs twice in the header");
      }
      return true;
    };
    try {
      return nlohmann::json::parse(text, check_names);
    } catch (const nlohmann::json::exception& error) {
      fail("the header is not JSON: ", error.what());
    }
  }

  void read_metadata(const nlohmann::json& entry) {
    if (!entry.is_object()) fail(kMetadataKey, " is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail(kMetadataKey, " '", key, "' is not a string");
      metadata.emplace(key, value.get<std::string>());
    }
  }

  std::int64_t integer(const std::string& tensor, const char* field, const nlohmann::json& value) const {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMax) {
      fail("tensor '", tensor, "': ", field, " holds ", value.dump(), ", expected an integer from 0");
    }
    return value.get<std::int64_t>();
  }

  /// nullopt for a type that is to be left out.
  std::optional<TensorType> type_of(const std::string& tensor, const nlohmann::json& value) const {
    const auto row = std::ranges::find_if(
        kTypes, [&](const TypeRow& each) { return value.is_string() && value.get<std::string>() == each.name; });
    if (row != kTypes.end()) return row->type;
    if (others_ == OtherTypes::kLeftOut && value.is_string()) return std::nullopt;
    fail("tensor '", tensor, "': unknown dtype ", value.dump());
  }

  void read_tensor(const std::string& name, const nlohmann::json& entry) {
    if (name.empty()) fail("a tensor has no name");
    if (!entry.is_object()) fail("tensor '", name, "' is not an object");
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!entry.contains(field)) fail("tensor '", name, "' has no ", field);
    }
    if (entry.size() != 3) fail("tensor '", name, "' has fields other than dtype, shape and data_offsets");
    const std::optional<TensorType> type = type_of(name, entry["dtype"]);
    TensorRecord record{.name = name, .type = type.value_or(TensorType::kU8), .shape = {}, .bytes = {}};
    if (!entry["shape"].is_array()) fail("tensor '", name, "': shape is not a list");
    for (const nlohmann::json& dimension : entry["shape"]) {
      record.shape.push_back(integer(name, "shape", dimension));
    }
    const nlohmann::json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) fail("tensor '", name, "': data_offsets is not [begin, end]");
    const std::int64_t begin = integer(name, "data_offsets", offsets[0]);
    const std::int64_t end = integer(name, "data_offsets", offsets[1]);
    if (begin > end || std::cmp_greater(end, data_.size())) {
      fail("tensor '", name, "': data_offsets [", begin, ", ", end, "] lie outside the ", data_.size(),
           " bytes of data (is the file truncated?)");
    }
    if (!type) {  // the element size is unknown
      record.shape = {end - begin};
      other_types_.emplace(name, entry["dtype"].get<std::string>());
    }
    const std::optional<std::int64_t> need = dense_bytes(record.type, record.shape);
    if (!need || *need != end - begin) {
      fail("tensor '", name, "': ", describe_tensor(record.type, record.shape), " does not take the ", end - begin,
           " bytes of its data_offsets");
    }
    record.bytes = data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    tensors.push_back(std::move(record));
  }

  std::int64_t begin_of(const TensorRecord& record) const { return record.bytes.data() - data_.data(); }

  void order_and_check_coverage() {
    std::ranges::sort(tensors, {}, [&](const TensorRecord& record) {
      return std::tuple(begin_of(record), record.bytes.size(), record.name);
    });
    std::int64_t covered = 0;
    for (const TensorRecord& record : tensors) {
      const std::int64_t begin = begin_of(record);
      if (begin != covered) {
        fail("tensor '", record.name, "': data_offsets begin at ", begin, ", expected ", covered, " (",
             begin < covered ? "it overlaps the tensor before it" : "there is a gap before it", ")");
      }
      covered += static_cast<std::int64_t>(record.bytes.size());
    }
    if (std::cmp_not_equal(covered, data_.size())) {
      fail("the tensors take ", covered, " bytes but the file has ", data_.size(), " bytes of data");
    }
  }

  const std::string& source_;
  std::span<const std::byte> data_;
  OtherTypes others_;
  std::map<std::string, std::string> other_types_;  // unsupported type by tensor name
};

}  // namespace

std::string_view tensor_type_name(TensorType type) { return type_row(type).name; }
std::int64_t tensor_type_bytes(TensorType type) { return type_row(type).num_bytes; }

std::string describe_tensor(TensorType type, std::span<const std::int64_t> shape) {
  std::ostringstream text;
  text << tensor_type_name(type) << " [";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) text << (axis > 0 ? ", " : "") << shape[axis];
  text << "]";
  return text.str();
}

SafetensorsImage::SafetensorsImage(std::span<const TensorRecord> records, const TensorMetadata& metadata) {
  check_records(records);
  std::vector<const TensorRecord*> order;
  for (const TensorRecord& record : records) order.push_back(&record);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const TensorRecord* record) { return tensor_type_bytes(record->type); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::int64_t offset = 0;
  for (const TensorRecord* record : order) {
    const std::int64_t end = offset + static_cast<std::int64_t>(record->bytes.size());
    header[record->name] = {
        {"dtype", tensor_type_name(record->type)}, {"shape", record->shape}, {"data_offsets", {offset, end}}};
    offset = end;
    tensors_.push_back(record->bytes);
  }
  std::string json;
  try {
    json = header.dump();
  } catch (const nlohmann::json::exception& error) {
    TERNGRAD_THROW(InvalidArgument, "[safetensors] a name or a metadata string is not UTF-8: ", error.what());
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  header_.resize(kLengthBytes);
  std::memcpy(header_.data(), &length, kLengthBytes);
  header_ += json;
}

std::vector<std::span<const std::byte>> SafetensorsImage::parts() const {
  std::vector<std::span<const std::byte>> all = {std::as_bytes(std::span(header_.data(), header_.size()))};
  all.insert(all.end(), tensors_.begin(), tensors_.end());
  return all;
}

std::string SafetensorsImage::to_string() const {
  std::string text;
  for (const std::span<const std::byte> part : parts()) {
    text.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return text;
}

void write_safetensors(const Folder& folder, const std::string& name, std::span<const TensorRecord> records,
                       const TensorMetadata& metadata) {
  const SafetensorsImage image(records, metadata);
  write_file_atomically(folder, name, image.parts());
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorRecord> records,
                       const TensorMetadata& metadata) {
  const SafetensorsImage image(records, metadata);
  write_file_atomically(path, image.parts());
}

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path, OtherTypes others) {
  return parse(read_file_bytes(path), path.string(), others);
}

SafetensorsFile SafetensorsFile::parse(std::vector<std::byte> content, std::string source, OtherTypes others) {
  SafetensorsFile file;
  file.source_ = std::move(source);
  file.content_ = std::move(content);
  const std::span<const std::byte> bytes = file.content_;
  const auto fail = [&](const auto&... parts) {
    TERNGRAD_THROW(DataError, "'", file.source_, "' is not a valid safetensors file: ", parts...);
  };
  if (bytes.size() < kLengthBytes) fail("it has ", bytes.size(), " bytes, too few for the header length");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) fail("header length ", length, " exceeds the limit of ", kMaxHeaderBytes);
  if (length > bytes.size() - kLengthBytes) {
    fail("header length ", length, " exceeds the ", bytes.size() - kLengthBytes, " bytes that follow (truncated?)");
  }
  const std::span<const std::byte> header = bytes.subspan(kLengthBytes, static_cast<std::size_t>(length));
  HeaderReader reader(file.source_, bytes.subspan(kLengthBytes + header.size()), others);
  reader.read({reinterpret_cast<const char*>(header.data()), header.size()});
  file.metadata_ = std::move(reader.metadata);
  file.tensors_ = std::move(reader.tensors);
  file.left_out_ = std::move(reader.left_out);
  return file;
}

const TensorRecord* SafetensorsFile::find(std::string_view name) const {
  const auto record = std::ranges::find(tensors_, name, &TensorRecord::name);
  return record == tensors_.end() ? nullptr : &*record;
}

}  // namespace terngrad
