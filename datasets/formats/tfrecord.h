// TFRecord: files of records with checksums, read and written.
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

/// CRC-32C as TFRecord files keep it: rotated right by 15 bits, plus 0xa282ead8, so that a checksum of data that holds
/// checksums stays a good one.
std::uint32_t masked_crc32c(std::string_view data);

/// One record: the length of `data` (8 bytes), masked_crc32c of these 8 bytes, `data`, masked_crc32c of `data`; all
/// little-endian. A file is records back to back.
std::string tfrecord(std::string_view data);

/// What a record has besides its data.
inline constexpr std::uint64_t kTfRecordFrameBytes = 16;
/// The longest data that is read: far more than an encoded image has.
inline constexpr std::uint64_t kMaxTfRecordBytes = std::uint64_t{1} << 28;

/// Reads the records of a file. Nothing is allocated for a record before its length has passed its checksum and is
/// known to fit the file. Messages name file, number of the record where it is known, and offset.
class TfRecordReader {
 public:
  /// Fills all of a span with the bytes of the file from an offset on, which are all within it.
  using Read = std::function<void(std::uint64_t offset, std::span<std::uint8_t> bytes)>;

  /// @throws DataError as InputFile
  explicit TfRecordReader(const std::filesystem::path& path);
  /// @param name  of the file, in messages
  TfRecordReader(std::string name, std::uint64_t num_bytes, Read read);

  /// Reads the next record, from the first of the file on.
  /// @param data  out, the record's data; its memory is kept
  /// @returns false at the end of the file, if nothing of a record is left
  /// @throws DataError for a file without records, one that is compressed as a whole, or a record that is cut off,
  /// longer than kMaxTfRecordBytes, or has a wrong checksum. Where that is the data's, the record counts as read, and
  /// next reads the one behind it
  bool next(std::vector<std::uint8_t>& data);
  /// Where the record begins that next has read last, and its number from 0.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t number() const { return num_read_ - 1; }
  std::uint64_t num_read() const { return num_read_; }

  /// Says that read_at will be called so, see InputFile::will_read.
  void will_read(std::uint64_t offset, std::uint64_t length) const;
  /// Reads the record that begins at `offset`, of a length that an index says. @throws DataError as next, and if the
  /// length is another
  void read_at(std::uint64_t offset, std::uint64_t length, std::vector<std::uint8_t>& data) const;

 private:
  /// The length that the record at `offset` says. @param which  "record 3", for messages
  std::uint64_t length_at(std::uint64_t offset, const std::string& which) const;
  void read_data(std::uint64_t offset, std::uint64_t length, const std::string& which,
                 std::vector<std::uint8_t>& data) const;
  [[noreturn]] void refuse(std::uint64_t offset, const std::string& which, const std::string& problem) const;

  std::string name_;
  std::shared_ptr<const InputFile> file_;  // null of what is read by a function
  std::uint64_t num_bytes_;
  Read read_;
  std::uint64_t offset_ = 0;
  std::uint64_t end_ = 0;  // of what was read
  std::uint64_t num_read_ = 0;
};

}  // namespace terngrad
