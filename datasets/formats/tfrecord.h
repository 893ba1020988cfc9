// TFRecord: reading and writing files of records with checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

class InputFile;

/// CRC-32C as masked in TFRecord files: rotated right by 15 bits, plus 0xa282ead8, so that checksums of data that
/// contain checksums stay meaningful.
std::uint32_t masked_crc32c(std::string_view data);

/// Serializes one record: the length of `data` (8 bytes), masked_crc32c of these 8 bytes, `data`, masked_crc32c of
/// `data`; all little-endian. A file is a sequence of records.
std::string tfrecord(std::string_view data);

/// Bytes of a record besides its data.
inline constexpr std::uint64_t kTfRecordFrameBytes = 16;
/// Maximum length of a record's data, far more than an encoded image has.
inline constexpr std::uint64_t kMaxTfRecordBytes = std::uint64_t{1} << 28;

/// Reads the records of a file. Allocates memory for a record only after its length has passed its checksum and fits
/// the file. Error messages contain file, number of the record if known, and offset.
class TfRecordReader {
 public:
  /// Fills a span with the file's bytes at an offset; the range is inside the file.
  using Read = std::function<void(std::uint64_t offset, std::span<std::uint8_t> bytes)>;

  /// @throws DataError as InputFile
  explicit TfRecordReader(const std::filesystem::path& path);
  /// @param name  file name for messages
  TfRecordReader(std::string name, std::uint64_t num_bytes, Read read);

  /// Reads the next record, starting with the first.
  /// @param data  out: the record's data; its memory is reused
  /// @returns false at the end of the file
  /// @throws DataError for a file without records, a compressed file, or a record that is truncated, longer than
  /// kMaxTfRecordBytes, or has a wrong checksum. After a wrong checksum of the data the next call reads the following
  /// record
  bool next(std::vector<std::uint8_t>& data);
  /// Offset of the record that `next` read last, and its number from 0.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t number() const { return num_read_ - 1; }
  std::uint64_t num_read() const { return num_read_; }

  /// Prefetch hint for a later read_at, see InputFile::will_read.
  void will_read(std::uint64_t offset, std::uint64_t length) const;
  /// Reads the record at `offset`, with the length from an index. @throws DataError as `next`, and for another length
  void read_at(std::uint64_t offset, std::uint64_t length, std::vector<std::uint8_t>& data) const;

 private:
  /// The length field of the record at `offset`. @param which  "record 3", for messages
  std::uint64_t length_at(std::uint64_t offset, const std::string& which) const;
  void read_data(std::uint64_t offset, std::uint64_t length, const std::string& which,
                 std::vector<std::uint8_t>& data) const;
  [[noreturn]] void refuse(std::uint64_t offset, const std::string& which, const std::string& problem) const;

  std::string name_;
  std::shared_ptr<const InputFile> file_;  // null if a function reads the data
  std::uint64_t num_bytes_;
  Read read_;
  std::uint64_t offset_ = 0;
  std::uint64_t end_ = 0;  // end of the last read record
  std::uint64_t num_read_ = 0;
};

}  // namespace terngrad
