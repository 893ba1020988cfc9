// The safetensors file format: named dense tensors and a map of strings, readable from any framework.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainers/io/folder.h"

namespace terngrad {

/// Element types of the format. Names and sizes: tensor_type_name, tensor_type_bytes.
enum class TensorType { kBool, kU8, kI8, kU16, kI16, kF16, kBf16, kU32, kI32, kF32, kU64, kI64, kF64 };

/// The format's name of a type, e.g. "F32".
std::string_view tensor_type_name(TensorType type);
/// Bytes of one element.
std::int64_t tensor_type_bytes(TensorType type);

/// A view of one tensor: row-major, little-endian, no padding.
struct TensorRecord {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::int64_t> shape;   // empty for a scalar
  std::span<const std::byte> bytes;  // product(shape) * tensor_type_bytes(type)

  std::int64_t num_elements() const { return static_cast<std::int64_t>(bytes.size()) / tensor_type_bytes(type); }
};

/// Treatment of tensors whose type is not in TensorType, such as F8_E4M3.
enum class OtherTypes { kRefused, kLeftOut };

using TensorMetadata = std::map<std::string, std::string>;

/// The content of a file, in parts to be written one after the other, so that tensors are not copied:
///
///   8 bytes   length of the header in bytes, little-endian, a multiple of 8
///   header    JSON object: "__metadata__" (strings by name; left out if there are none), then one entry per tensor:
///             {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, offsets counted from the header's end;
///             padded with spaces
///   data      the tensors without gaps
///
/// Tensors are sorted by descending element size, in the caller's order otherwise, so each is aligned to its element
/// size. Equal input gives equal bytes.
class SafetensorsImage {
 public:
  /// @param records  must outlive the image, with their bytes
  /// @throws InvalidArgument for a name that is empty, repeated, "__metadata__" or not UTF-8, or a length that does not
  /// fit the shape
  SafetensorsImage(std::span<const TensorRecord> records, const TensorMetadata& metadata);

  /// The header followed by the tensors' bytes; valid while this object and the records live.
  std::vector<std::span<const std::byte>> parts() const;
  /// All parts in one string.
  std::string to_string() const;

 private:
  std::string header_;
  std::vector<std::span<const std::byte>> tensors_;
};

/// Writes `records` and `metadata` to the file `name` in a folder as write_file_atomically does.
/// @throws InvalidArgument as SafetensorsImage, DataError if the file cannot be written
void write_safetensors(const Folder& folder, const std::string& name, std::span<const TensorRecord> records,
                       const TensorMetadata& metadata);
void write_safetensors(const std::filesystem::path& path, std::span<const TensorRecord> records,
                       const TensorMetadata& metadata);

/// A safetensors file in memory, fully validated: JSON, names, types, sizes, and offsets that cover the data exactly
/// once. Move-only: its records point into it.
class SafetensorsFile {
 public:
  /// @throws DataError naming the file and the field if the file is missing, truncated or damaged
  static SafetensorsFile read(const std::filesystem::path& path, OtherTypes others = OtherTypes::kRefused);
  /// The same for a file's content. @param source  name of the file in errors
  static SafetensorsFile parse(std::vector<std::byte> content, std::string source,
                               OtherTypes others = OtherTypes::kRefused);

  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// The whole file.
  std::span<const std::byte> content() const { return content_; }
  /// The file's name, for messages.
  const std::string& source() const { return source_; }
  const TensorMetadata& metadata() const { return metadata_; }
  /// Tensors in the order of their data.
  std::span<const TensorRecord> tensors() const { return tensors_; }
  /// Name and type of each tensor that was left out, e.g. "'scales' (F8_E4M3)".
  std::span<const std::string> left_out() const { return left_out_; }
  /// The tensor called `name`, or nullptr.
  const TensorRecord* find(std::string_view name) const;

 private:
  SafetensorsFile() = default;
  std::string source_;
  std::vector<std::byte> content_;
  TensorMetadata metadata_;
  std::vector<TensorRecord> tensors_;
  std::vector<std::string> left_out_;
};

/// A type and shape for messages, e.g. "F32 [5, 5, 1, 32]".
std::string describe_tensor(TensorType type, std::span<const std::int64_t> shape);

}  // namespace terngrad
