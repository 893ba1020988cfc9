#include "datasets/formats/tfrecord.h"

#include <algorithm>
#include <array>
#include <utility>

#include "datasets/formats/file_kind.h"
#include "datasets/formats/input_file.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad {
namespace {

constexpr std::uint64_t kRecordLengthBytes = 8;
constexpr std::uint64_t kRecordChecksumBytes = 4;
constexpr std::uint64_t kRecordHeaderBytes = kRecordLengthBytes + kRecordChecksumBytes;

void append_little_endian(std::string& bytes, std::uint64_t value, std::uint64_t num_bytes) {
  for (std::uint64_t i = 0; i < num_bytes; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

std::uint64_t little_endian(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
  return value;
}

std::uint32_t masked(std::span<const std::uint8_t> data) {
  const std::uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  return masked({reinterpret_cast<const std::uint8_t*>(data.data()), data.size()});
}

std::string tfrecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + kTfRecordFrameBytes);
  append_little_endian(record, data.size(), kRecordLengthBytes);
  append_little_endian(record, masked_crc32c(record), kRecordChecksumBytes);
  record += data;
  append_little_endian(record, masked_crc32c(data), kRecordChecksumBytes);
  return record;
}

TfRecordReader::TfRecordReader(const std::filesystem::path& path)
    : name_(path.string()), file_(std::make_shared<const InputFile>(path)), num_bytes_(file_->num_bytes()) {
  read_ = [file = file_](std::uint64_t offset, std::span<std::uint8_t> bytes) { file->read_at(offset, bytes); };
}

TfRecordReader::TfRecordReader(std::string name, std::uint64_t num_bytes, Read read)
    : name_(std::move(name)), num_bytes_(num_bytes), read_(std::move(read)) {}

void TfRecordReader::refuse(std::uint64_t offset, const std::string& which, const std::string& problem) const {
  TERNGRAD_THROW(DataError, "'", name_, "', ", which, " at byte ", offset, ": ", problem);
}

std::uint64_t TfRecordReader::length_at(std::uint64_t offset, const std::string& which) const {
  const std::uint64_t left = offset < num_bytes_ ? num_bytes_ - offset : 0;
  if (left < kTfRecordFrameBytes) {
    refuse(offset, which,
           "expected at least " + std::to_string(kTfRecordFrameBytes) + " bytes, " + std::to_string(left) +
               " are left of the file");
  }
  std::array<std::uint8_t, kRecordHeaderBytes> header;
  read_(offset, header);
  const std::span<const std::uint8_t> length_bytes = std::span(header).first(kRecordLengthBytes);
  if (little_endian(std::span(header).subspan(kRecordLengthBytes)) != masked(length_bytes)) {
    std::vector<std::uint8_t> beginning(static_cast<std::size_t>(std::min<std::uint64_t>(num_bytes_, kFileKindBytes)));
    if (offset == 0) read_(0, beginning);
    refuse(offset, which, "the checksum of its length is wrong" + (offset == 0 ? looks_like(beginning) : ""));
  }
  const std::uint64_t length = little_endian(length_bytes);
  if (length > kMaxTfRecordBytes) {
    refuse(offset, which,
           "it has " + std::to_string(length) + " bytes, accepted are at most " + std::to_string(kMaxTfRecordBytes));
  }
  if (length > left - kTfRecordFrameBytes) {
    refuse(offset, which,
           "it has " + std::to_string(length) + " bytes, " + std::to_string(left - kTfRecordFrameBytes) +
               " are left of the file");
  }
  return length;
}

void TfRecordReader::read_data(std::uint64_t offset, std::uint64_t length, const std::string& which,
                               std::vector<std::uint8_t>& data) const {
  data.resize(static_cast<std::size_t>(length + kRecordChecksumBytes));
  read_(offset + kRecordHeaderBytes, data);
  const std::uint64_t checksum = little_endian(std::span(data).last(kRecordChecksumBytes));
  data.resize(static_cast<std::size_t>(length));
  if (checksum != masked(data)) refuse(offset, which, "the checksum of its data is wrong");
}

bool TfRecordReader::next(std::vector<std::uint8_t>& data) {
  if (end_ == num_bytes_ && num_read_ > 0) return false;
  if (num_bytes_ == 0) TERNGRAD_THROW(DataError, "'", name_, "' is empty, expected records");
  const std::string which = "record " + std::to_string(num_read_);
  const std::uint64_t length = length_at(end_, which);
  offset_ = end_;
  end_ += length + kTfRecordFrameBytes;
  ++num_read_;
  read_data(offset_, length, which, data);
  return true;
}

void TfRecordReader::will_read(std::uint64_t offset, std::uint64_t length) const {
  if (file_ != nullptr) file_->will_read(offset, length + kTfRecordFrameBytes);
}

void TfRecordReader::read_at(std::uint64_t offset, std::uint64_t length, std::vector<std::uint8_t>& data) const {
  const std::string which = "the record";
  const std::uint64_t found = length_at(offset, which);
  if (found != length) {
    refuse(offset, which, "it has " + std::to_string(found) + " bytes, the index says " + std::to_string(length));
  }
  read_data(offset, length, which, data);
}

}  // namespace terngrad
