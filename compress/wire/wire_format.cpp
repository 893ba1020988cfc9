#include "compress/wire/wire_format.h"

#include <algorithm>
#include <cstring>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are written as the machine stores them");

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;
  std::uint64_t run_id;
  std::uint64_t fingerprint;
  std::uint64_t step;
  std::uint32_t worker;
  std::uint32_t num_records;
  std::uint64_t payload_bytes;
  std::uint64_t num_elements;  // sum over records
  std::uint32_t payload_crc;
  std::uint32_t header_crc;  // over the 60 bytes before it, and the records
};
static_assert(sizeof(Header) == kWireHeaderBytes);

struct WireRecord {
  std::uint32_t segment;
  std::uint8_t codec;
  std::uint8_t format;
  std::uint16_t reserved;
  std::uint64_t first;
  std::uint64_t count;
  std::uint64_t offset;  // scalers' offset in the payload
  std::uint64_t bytes;   // size of the codes
  std::uint32_t num_scalers;
  std::uint32_t reserved2;
};
static_assert(sizeof(WireRecord) == kWireRecordBytes);

constexpr std::size_t round_up8(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

std::size_t payload_start(std::size_t num_records) { return kWireHeaderBytes + num_records * kWireRecordBytes; }

std::uint32_t header_checksum(std::span<const std::uint8_t> message, std::size_t num_records) {
  const std::uint32_t crc = crc32c(message.first(kWireHeaderBytes - 4));
  return crc32c(message.subspan(kWireHeaderBytes, num_records * kWireRecordBytes), crc);
}

template <class T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class Expected, class Found>
void expect(const char* field, const Expected& expected, const Found& found) {
  if (expected != found) {
    TERNGRAD_THROW(CommunicationError, "[message] ", field, " is ", found, ", expected ", expected);
  }
}

Header read_header(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kWireHeaderBytes) {
    TERNGRAD_THROW(CommunicationError, "[message] length is ", bytes.size(), " bytes, shorter than a header of ",
                   kWireHeaderBytes);
  }
  const auto header = load<Header>(bytes.data());
  expect("magic", kWireMagic, header.magic);
  expect("version", kWireVersion, header.version);
  return header;
}

/// Checks that the message has space for the records, and their checksum.
void check_records(const Header& header, std::span<const std::uint8_t> bytes) {
  const std::size_t room = (bytes.size() - kWireHeaderBytes) / kWireRecordBytes;
  if (header.num_records > room) {
    TERNGRAD_THROW(CommunicationError, "[message] number of records is ", header.num_records, ", the length allows ",
                   room);
  }
  expect("header checksum", header_checksum(bytes, header.num_records), header.header_crc);
}

/// Returns the payload, which follows the records, after checking its length and checksum.
std::span<const std::uint8_t> read_payload(const Header& header, std::span<const std::uint8_t> bytes) {
  const std::span<const std::uint8_t> payload = bytes.subspan(payload_start(header.num_records));
  expect("payload length", static_cast<std::uint64_t>(payload.size()), header.payload_bytes);
  expect("payload checksum", crc32c(payload), header.payload_crc);
  return payload;
}

WireRecord load_record(std::span<const std::uint8_t> bytes, std::size_t index) {
  const auto record = load<WireRecord>(bytes.data() + kWireHeaderBytes + index * kWireRecordBytes);
  if (record.reserved != 0 || record.reserved2 != 0) {
    TERNGRAD_THROW(CommunicationError, "[message] reserved field of record ", index, " is not zero");
  }
  return record;
}

/// Checks that a record lies within the payload. @returns the offset of its codes in the payload
std::size_t codes_of(const WireRecord& record, std::size_t index, std::size_t payload_bytes) {
  const std::uint64_t scaler_bytes = round_up8(4 * static_cast<std::size_t>(record.num_scalers));
  if (record.offset % 8 != 0 || record.offset > payload_bytes || scaler_bytes > payload_bytes - record.offset ||
      record.bytes > payload_bytes - record.offset - scaler_bytes) {
    TERNGRAD_THROW(CommunicationError, "[message] record ", index, " lies outside the payload: offset ", record.offset,
                   ", ", record.num_scalers, " scalers, ", record.bytes, " bytes, payload of ", payload_bytes);
  }
  return record.offset + scaler_bytes;
}

EncodedSlice read_record(const WireRecord& record, std::size_t index, const MessageContext& context,
                         const Layout& layout, std::span<const std::uint8_t> payload) {
  if (record.segment >= static_cast<std::uint32_t>(layout.num_segments())) {
    TERNGRAD_THROW(CommunicationError, "[message] record ", index, " names segment ", record.segment,
                   ", the layout has ", layout.num_segments());
  }
  const Segment& segment = layout.segment(static_cast<int>(record.segment));
  const auto size = static_cast<std::uint64_t>(segment.num_elements);
  if (record.first > size || record.count > size - record.first || record.first % kChunkElements != 0) {
    TERNGRAD_THROW(CommunicationError, "[message] record ", index, " covers elements ", record.first, " + ",
                   record.count, " of tensor '", segment.name, "', which has ", size);
  }
  const std::size_t codes = codes_of(record, index, payload.size());
  EncodedSlice encoded;
  encoded.slice = {static_cast<int>(record.segment), static_cast<std::int64_t>(record.first),
                   static_cast<std::int64_t>(record.count)};
  encoded.format = record.format;
  encoded.scalers = {reinterpret_cast<const float*>(payload.data() + record.offset), record.num_scalers};
  encoded.payload = payload.subspan(codes, record.bytes);
  if (context.seed.has_value()) encoded.key = StepKey{*context.seed, context.step};
  encoded.draw_offset = segment.draw_offset;
  return encoded;
}

}  // namespace

std::int64_t max_message_bytes(std::size_t num_records, std::int64_t num_scalers, std::int64_t payload_bytes) {
  return static_cast<std::int64_t>(payload_start(num_records) + 16 * num_records) + 4 * num_scalers + payload_bytes;
}

MessageSize::MessageSize(std::size_t num_records) : bytes_(static_cast<std::int64_t>(payload_start(num_records))) {}

void MessageSize::add(std::int64_t num_scalers, std::int64_t bytes) {
  const auto start = round_up8(static_cast<std::size_t>(bytes_));
  bytes_ = static_cast<std::int64_t>(start + round_up8(4 * static_cast<std::size_t>(num_scalers))) + bytes;
}

void MessageWriter::begin(MessageKind kind, const MessageContext& context, int worker, std::size_t num_records,
                          std::int64_t max_bytes) {
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(max_bytes, 0) + 7) / 8;
  if (words_.size() < room) words_.resize(room);
  begin_in({reinterpret_cast<std::uint8_t*>(words_.data()), 8 * room}, kind, context, worker, num_records);
}

void MessageWriter::begin_in(std::span<std::uint8_t> storage, MessageKind kind, const MessageContext& context,
                             int worker, std::size_t num_records) {
  TERNGRAD_REQUIRE(storage.size() >= payload_start(num_records), "[message] ", storage.size(),
                   " bytes announced, too few for a header and ", num_records, " records");
  storage_ = storage;
  num_records_ = num_records;
  record_ = 0;
  bytes_ = payload_start(num_records);
  const Header header{.magic = kWireMagic,
                      .version = kWireVersion,
                      .kind = static_cast<std::uint16_t>(kind),
                      .run_id = context.run_id,
                      .fingerprint = context.fingerprint,
                      .step = context.step,
                      .worker = static_cast<std::uint32_t>(worker),
                      .num_records = static_cast<std::uint32_t>(num_records),
                      .payload_bytes = 0,
                      .num_elements = 0,
                      .payload_crc = 0,
                      .header_crc = 0};
  std::memcpy(data(), &header, sizeof(header));
}

std::uint8_t* MessageWriter::add(const Slice& slice, std::uint8_t codec, std::uint8_t format,
                                 std::span<const float> scalers, std::int64_t max_bytes) {
  TERNGRAD_REQUIRE(record_ < num_records_, "[message] ", num_records_, " records were announced, one more came");
  const std::size_t start = round_up8(bytes_);
  const std::size_t codes = start + round_up8(scalers.size_bytes());
  const std::size_t end = codes + static_cast<std::size_t>(max_bytes);
  TERNGRAD_REQUIRE(end <= storage_.size(), "[message] slices need ", end, " bytes, more than the ", storage_.size(),
                   " announced");
  std::memset(data() + bytes_, 0, start - bytes_);
  std::memset(data() + start, 0, codes - start);
  if (!scalers.empty()) std::memcpy(data() + start, scalers.data(), scalers.size_bytes());
  const WireRecord record{.segment = static_cast<std::uint32_t>(slice.segment),
                          .codec = codec,
                          .format = format,
                          .reserved = 0,
                          .first = static_cast<std::uint64_t>(slice.first),
                          .count = static_cast<std::uint64_t>(slice.count),
                          .offset = start - payload_start(num_records_),
                          .bytes = static_cast<std::uint64_t>(max_bytes),
                          .num_scalers = static_cast<std::uint32_t>(scalers.size()),
                          .reserved2 = 0};
  std::memcpy(place_of(record_), &record, sizeof(record));
  bytes_ = end;
  ++record_;
  return data() + codes;
}

void MessageWriter::set_bytes(std::size_t index, std::int64_t bytes) {
  TERNGRAD_REQUIRE(index < record_, "[message] slice ", index, " was not added");
  auto record = load<WireRecord>(place_of(index));
  TERNGRAD_REQUIRE(static_cast<std::uint64_t>(bytes) <= record.bytes, "[message] slice ", index, " took ", bytes,
                   " bytes, room was made for ", record.bytes);
  record.bytes = static_cast<std::uint64_t>(bytes);
  std::memcpy(place_of(index), &record, sizeof(record));
}

void MessageWriter::add_bytes(std::span<const std::uint8_t> bytes) {
  TERNGRAD_REQUIRE(num_records_ == 0, "[message] bytes are for messages without records, this one has ", num_records_);
  TERNGRAD_REQUIRE(bytes.size() <= storage_.size() - bytes_, "[message] ", bytes.size(),
                   " bytes are more than the message has room for");
  if (!bytes.empty()) std::memcpy(data() + bytes_, bytes.data(), bytes.size());
  bytes_ += bytes.size();
}

std::span<const std::uint8_t> MessageWriter::finish() {
  TERNGRAD_REQUIRE(record_ == num_records_, "[message] ", num_records_, " records were announced, ", record_, " came");
  const std::size_t start = payload_start(num_records_);
  auto header = load<Header>(data());
  std::size_t end = num_records_ == 0 ? bytes_ : start;
  for (std::size_t i = 0; i < num_records_; ++i) {
    auto record = load<WireRecord>(place_of(i));
    const std::size_t target = round_up8(end);
    const std::size_t length = round_up8(4 * static_cast<std::size_t>(record.num_scalers)) + record.bytes;
    if (target != start + record.offset) {
      std::memmove(data() + target, data() + start + record.offset, length);
      record.offset = target - start;
      std::memcpy(place_of(i), &record, sizeof(record));
    }
    std::memset(data() + end, 0, target - end);
    end = target + length;
    header.num_elements += record.count;
  }
  bytes_ = end;
  header.payload_bytes = bytes_ - start;
  header.payload_crc = crc32c({data() + start, bytes_ - start});
  std::memcpy(data(), &header, sizeof(header));
  header.header_crc = header_checksum({data(), bytes_}, num_records_);
  std::memcpy(data(), &header, sizeof(header));
  return {data(), bytes_};
}

MessageLabel read_label(std::span<const std::uint8_t> bytes) {
  const Header header = read_header(bytes);
  return {static_cast<MessageKind>(header.kind), header.step, header.worker};
}

MessageOutline outline_message(std::span<const std::uint8_t> bytes) {
  const Header header = read_header(bytes);
  check_records(header, bytes);
  const std::size_t payload_size = read_payload(header, bytes).size();
  MessageOutline outline{.label = {static_cast<MessageKind>(header.kind), header.step, header.worker},
                         .run_id = header.run_id,
                         .fingerprint = header.fingerprint,
                         .payload_bytes = header.payload_bytes,
                         .num_elements = header.num_elements,
                         .records = {}};
  outline.records.reserve(header.num_records);
  const std::size_t start = payload_start(header.num_records);
  std::uint64_t num_elements = 0;
  for (std::size_t i = 0; i < header.num_records; ++i) {
    const WireRecord record = load_record(bytes, i);
    num_elements += record.count;
    outline.records.push_back({.segment = record.segment,
                               .codec = record.codec,
                               .format = record.format,
                               .first = record.first,
                               .count = record.count,
                               .num_scalers = record.num_scalers,
                               .scalers_at = start + record.offset,
                               .codes_at = start + codes_of(record, i, payload_size),
                               .bytes = record.bytes});
  }
  expect("number of elements", num_elements, header.num_elements);
  return outline;
}

void read_message(std::span<const std::uint8_t> bytes, MessageKind kind, const MessageContext& context,
                  const Layout& layout, Message& message) {
  const Header header = read_header(bytes);
  check_records(header, bytes);
  expect("kind", static_cast<std::uint16_t>(kind), header.kind);
  expect("run id", context.run_id, header.run_id);
  expect("layout fingerprint", context.fingerprint, header.fingerprint);
  expect("step", context.step, header.step);
  const std::span<const std::uint8_t> payload = read_payload(header, bytes);
  message.kind = kind;
  message.worker = static_cast<int>(header.worker);
  message.payload = payload;
  message.records.resize(header.num_records);
  std::uint64_t num_elements = 0;
  for (std::size_t i = 0; i < header.num_records; ++i) {
    const WireRecord record = load_record(bytes, i);
    message.records[i] = {record.codec, read_record(record, i, context, layout, payload)};
    num_elements += record.count;
  }
  expect("number of elements", num_elements, header.num_elements);
}

}  // namespace terngrad
