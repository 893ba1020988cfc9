#include "compress/wire/wire_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "kernels/runtime/errors.h"
#include "support/reference.h"
#include "support/sanitized.h"

namespace terngrad::wire_format_test {
namespace {

using reference::Bytes;
using ::testing::HasSubstr;

const MessageContext kContext{0x1122334455667788, 0x99aabbccddeeff00, 0x0102030405};

Layout small_layout() {
  Layout layout;
  layout.add("w", {10});
  layout.add("b", {3});
  return layout;
}

const std::vector<std::uint8_t> kCodes = {0x4d, 0xf0, 0x01, 0x00};  // t2 of + - 0 + 0 0 - - + 0
const std::vector<float> kBiases = {1.0f, -2.0f, 0.5f};

/// Gradient of worker 5: tensor w as t2 with scaler 2, tensor b as fp32.
Bytes small_message() {
  MessageWriter writer;
  writer.begin(MessageKind::kGradient, kContext, 5, 2, max_message_bytes(2, 2, 4 + 12));
  const std::vector<float> two = {2.0f};
  const std::vector<float> zero = {0.0f};
  std::uint8_t* codes = writer.add({0, 0, 10}, 3, 1, two, 4);
  std::copy(kCodes.begin(), kCodes.end(), codes);
  std::uint8_t* biases = writer.add({1, 0, 3}, 1, 0, zero, 12);
  std::memcpy(biases, kBiases.data(), 12);
  const auto bytes = writer.finish();
  return {bytes.begin(), bytes.end()};
}

/// The small message, byte by byte, as in docs/wire-format.md.
const Bytes kGolden = {
    // clang-format off
    // header, 64 bytes
    0x54, 0x47, 0x52, 0x44,                          //  0 magic "TGRD"
    0x01, 0x00,                                      //  4 version 1
    0x02, 0x00,                                      //  6 kind 2: gradient
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  //  8 run id
    0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,  // 16 fingerprint
    0x05, 0x04, 0x03, 0x02, 0x01, 0x00, 0x00, 0x00,  // 24 step
    0x05, 0x00, 0x00, 0x00,                          // 32 worker
    0x02, 0x00, 0x00, 0x00,                          // 36 number of records
    0x24, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 40 payload length: 36
    0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 48 number of elements: 13
    0x00, 0x00, 0x00, 0x00,                          // 56 CRC-32C of the payload (filled in below)
    0x00, 0x00, 0x00, 0x00,                          // 60 CRC-32C of bytes 0-59 and the records (filled in below)
    // record 0, 48 bytes
    0x00, 0x00, 0x00, 0x00,                          // segment 0
    0x03, 0x01, 0x00, 0x00,                          // codec 3: ternary, format 1: t2, reserved
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // first element
    0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // elements: 10
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // offset in the payload
    0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // bytes of codes
    0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // scalers: 1, reserved
    // record 1
    0x01, 0x00, 0x00, 0x00,
    0x01, 0x00, 0x00, 0x00,                          // codec 1: fp32, format 0
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // offset 16
    0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    // payload
    0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00,  // scaler 2.0f, padded to 8 bytes
    0x4d, 0xf0, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,  // codes + - 0 + 0 0 - - + 0, padded to 8 bytes
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // scaler 0.0f, padded to 8 bytes
    0x00, 0x00, 0x80, 0x3f,                          // 1.0f
    0x00, 0x00, 0x00, 0xc0,                          // -2.0f
    0x00, 0x00, 0x00, 0x3f,                          // 0.5f
    // clang-format on
};

void store32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

/// Recomputes both checksums, so that the damaged field itself is detected.
void fix_checksums(Bytes& bytes, std::size_t num_records = 2) {
  const std::size_t payload = std::min(bytes.size(), 64 + 48 * num_records);
  store32(bytes, 56, reference::crc32c(std::span<const std::uint8_t>(bytes).subspan(payload)));
  Bytes head(bytes.begin(), bytes.begin() + 60);
  head.insert(head.end(), bytes.begin() + 64, bytes.begin() + static_cast<std::ptrdiff_t>(payload));
  store32(bytes, 60, reference::crc32c(head));
}

/// Reads from a buffer of exact length and alignment 8, so that the address sanitizer detects reads past the end.
Message read(const Bytes& bytes, MessageKind kind = MessageKind::kGradient, const MessageContext& context = kContext) {
  const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  Message message;
  const Layout layout = small_layout();
  read_message({exact.get(), bytes.size()}, kind, context, layout, message);
  return message;
}

std::string refusal(const Bytes& bytes, MessageKind kind = MessageKind::kGradient,
                    const MessageContext& context = kContext) {
  try {
    read(bytes, kind, context);
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(WireFormat, WritesGoldenBytes) {
  Bytes golden = kGolden;
  fix_checksums(golden);
  EXPECT_EQ(small_message(), golden);
}

TEST(WireFormat, ChecksumsArePinned) {
  const Bytes bytes = small_message();
  const std::vector<std::uint8_t> checksums(bytes.begin() + 56, bytes.begin() + 64);
  EXPECT_EQ(checksums, (std::vector<std::uint8_t>{0xa9, 0x02, 0x6c, 0xc9, 0x50, 0x08, 0x73, 0xcd}));
}

TEST(WireFormat, ReadsWhatItWrote) {
  const Bytes bytes = small_message();
  Message message;
  const Layout layout = small_layout();
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  read_message({reinterpret_cast<const std::uint8_t*>(aligned.data()), bytes.size()}, MessageKind::kGradient, kContext,
               layout, message);
  EXPECT_EQ(message.worker, 5);
  ASSERT_EQ(message.records.size(), 2u);
  EXPECT_EQ(message.records[0].codec, 3);
  EXPECT_EQ(message.records[0].encoded.format, 1);
  EXPECT_EQ(message.records[0].encoded.slice, (Slice{0, 0, 10}));
  EXPECT_THAT(message.records[0].encoded.scalers, ::testing::ElementsAre(2.0f));
  EXPECT_THAT(message.records[0].encoded.payload, ::testing::ElementsAreArray(kCodes));
  EXPECT_EQ(message.records[1].codec, 1);
  EXPECT_EQ(message.records[1].encoded.slice, (Slice{1, 0, 3}));
  EXPECT_EQ(message.records[1].encoded.payload.size(), 12u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.records[1].encoded.payload.data()) % 8, 0u);
}

TEST(WireFormat, RefusesEverySingleBitFlip) {
  const Bytes bytes = small_message();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 1 << bit);
      ASSERT_NE(refusal(damaged), "accepted") << "byte " << at << ", bit " << bit;
    }
  }
}

TEST(WireFormat, RefusesEveryTruncationAndExtension) {
  const Bytes bytes = small_message();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(refusal(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))), "accepted") << size;
  }
  Bytes longer = bytes;
  for (int i = 0; i < 100; ++i) {
    longer.push_back(0);
    ASSERT_NE(refusal(longer), "accepted");
  }
}

struct Damage {
  const char* field;  // named by the error
  std::size_t at;     // byte
  std::uint8_t value;
};

class DamagedField : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedField, IsRefusedByName) {
  Bytes bytes = small_message();
  bytes[GetParam().at] = GetParam().value;
  fix_checksums(bytes);
  EXPECT_THAT(refusal(bytes), HasSubstr(GetParam().field));
}

INSTANTIATE_TEST_SUITE_P(
    WireFormat, DamagedField,
    ::testing::Values(Damage{"magic", 0, 0x55}, Damage{"version", 4, 2}, Damage{"kind", 6, 1}, Damage{"run id", 8, 0},
                      Damage{"fingerprint", 23, 0}, Damage{"step", 28, 2}, Damage{"number of records", 36, 200},
                      Damage{"payload length", 40, 0x25}, Damage{"number of elements", 48, 14},
                      Damage{"segment", 64, 2}, Damage{"segment", 67, 0x80}, Damage{"reserved", 70, 1},
                      Damage{"tensor 'w'", 72, 1},     // first: not a multiple of a chunk
                      Damage{"tensor 'w'", 73, 0x10},  // first: past the end
                      Damage{"tensor 'w'", 79, 0x80}, Damage{"tensor 'w'", 80, 11}, Damage{"tensor 'w'", 87, 0xff},
                      Damage{"payload", 88, 4},     // offset: not a multiple of 8
                      Damage{"payload", 88, 0x28},  // offset past the end
                      Damage{"payload", 95, 0x80}, Damage{"payload", 96, 0x40}, Damage{"payload", 103, 0xff},
                      Damage{"payload", 104, 0x20}, Damage{"payload", 107, 0xff}, Damage{"reserved", 108, 1},
                      Damage{"reserved", 159, 1}));

TEST(WireFormat, NamesChecksums) {
  Bytes bytes = small_message();
  bytes[56] ^= 1;  // also covered by the header's checksum
  EXPECT_THAT(refusal(bytes), HasSubstr("header checksum"));
  bytes = small_message();
  bytes[60] ^= 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("header checksum"));
  bytes = small_message();
  bytes.back() ^= 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("payload checksum"));
}

TEST(WireFormat, RefusesMessagesOfAnotherKindRunLayoutOrStep) {
  const Bytes bytes = small_message();
  EXPECT_THAT(refusal(bytes, MessageKind::kMean), HasSubstr("kind"));
  MessageContext context = kContext;
  context.run_id ^= 1;
  EXPECT_THAT(refusal(bytes, MessageKind::kGradient, context), HasSubstr("run id"));
  context = kContext;
  context.fingerprint ^= 1;
  EXPECT_THAT(refusal(bytes, MessageKind::kGradient, context), HasSubstr("fingerprint"));
  context = kContext;
  context.step ^= 1;
  EXPECT_THAT(refusal(bytes, MessageKind::kGradient, context), HasSubstr("step"));
}

TEST(WireFormat, NeverReadsOutsideWhateverTheFieldsSay) {
  // Random damage with valid checksums: refused, or all views lie inside (checked by the address sanitizer).
  std::mt19937_64 random(4);
  const Bytes good = small_message();
  for (int trial = 0; trial < testing::scaled(20000, 4000); ++trial) {
    Bytes bytes = good;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    std::uint32_t num_records;
    std::memcpy(&num_records, bytes.data() + 36, 4);
    fix_checksums(bytes, std::min<std::size_t>(num_records, 2));
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    Message message;
    const Layout layout = small_layout();
    try {
      read_message({exact.get(), bytes.size()}, MessageKind::kGradient, kContext, layout, message);
    } catch (const CommunicationError&) {
      continue;
    }
    unsigned sum = 0;
    for (const Message::Record& record : message.records) {
      for (const std::uint8_t byte : record.encoded.payload) sum += byte;
      for (const float s : record.encoded.scalers) sum += s > 0;
    }
    ASSERT_LT(sum, 1u << 30);
  }
}

TEST(WireFormat, HoldsAMessageWithoutRecords) {
  MessageWriter writer;
  writer.begin(MessageKind::kMean, kContext, 0, 0, max_message_bytes(0, 0, 0));
  const auto bytes = writer.finish();
  EXPECT_EQ(bytes.size(), kWireHeaderBytes);
  EXPECT_TRUE(read({bytes.begin(), bytes.end()}, MessageKind::kMean).records.empty());
}

TEST(MessageWriter, MovesShorterSlicesTogether) {
  MessageWriter writer;
  writer.begin(MessageKind::kGradient, kContext, 5, 2, max_message_bytes(2, 2, 400 + 12));
  const std::vector<float> two = {2.0f};
  const std::vector<float> zero = {0.0f};
  std::uint8_t* codes = writer.add({0, 0, 10}, 3, 1, two, 400);
  std::memset(codes, 0xff, 400);
  std::copy(kCodes.begin(), kCodes.end(), codes);
  std::uint8_t* biases = writer.add({1, 0, 3}, 1, 0, zero, 12);
  std::memcpy(biases, kBiases.data(), 12);
  writer.set_bytes(0, 4);
  const auto bytes = writer.finish();
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), small_message());
}

TEST(MessageWriter, GivesTheSameBytesWhenItsBufferIsUsedAgain) {
  MessageWriter writer;
  writer.begin(MessageKind::kMean, kContext, 1, 1, max_message_bytes(1, 0, 1000));
  std::memset(writer.add({0, 0, 10}, 1, 0, {}, 1000), 0xee, 1000);
  writer.finish();
  writer.begin(MessageKind::kGradient, kContext, 5, 2, max_message_bytes(2, 2, 16));
  const std::vector<float> two = {2.0f};
  const std::vector<float> zero = {0.0f};
  std::copy(kCodes.begin(), kCodes.end(), writer.add({0, 0, 10}, 3, 1, two, 4));
  std::memcpy(writer.add({1, 0, 3}, 1, 0, zero, 12), kBiases.data(), 12);
  const auto bytes = writer.finish();
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), small_message());
}

TEST(MessageWriter, RefusesMisuse) {
  MessageWriter writer;
  EXPECT_THROW(writer.begin(MessageKind::kMean, kContext, 0, 1, 64), InvalidArgument);
  writer.begin(MessageKind::kMean, kContext, 0, 1, max_message_bytes(1, 0, 8));
  EXPECT_THROW(writer.finish(), InvalidArgument);  // a record is missing
  EXPECT_THROW(writer.add({0, 0, 10}, 1, 0, {}, 4000), InvalidArgument);
  writer.add({0, 0, 2}, 1, 0, {}, 8);
  EXPECT_THROW(writer.add({0, 0, 2}, 1, 0, {}, 8), InvalidArgument);  // one too many
  EXPECT_THROW(writer.set_bytes(0, 9), InvalidArgument);
  EXPECT_THROW(writer.set_bytes(0, -1), InvalidArgument);
  EXPECT_THROW(writer.set_bytes(1, 4), InvalidArgument);
}

TEST(WireFormat, LabelsSayWhatAMessageIs) {
  const Bytes bytes = small_message();
  const MessageLabel label = read_label(bytes);
  EXPECT_EQ(label.kind, MessageKind::kGradient);
  EXPECT_EQ(label.step, kContext.step);
  EXPECT_EQ(label.worker, 5u);
  for (const std::size_t field : {0u, 4u}) {  // magic, version
    Bytes bad = bytes;
    bad[field] ^= 1;
    EXPECT_THROW(read_label(bad), CommunicationError);
  }
  EXPECT_THROW(read_label(std::span(bytes).first(63)), CommunicationError);
}

TEST(WireFormat, OutlinesNeedNoLayout) {
  const Bytes bytes = small_message();
  const MessageOutline outline = outline_message(bytes);
  EXPECT_EQ(outline.label.kind, MessageKind::kGradient);
  EXPECT_EQ(outline.label.worker, 5u);
  EXPECT_EQ(outline.label.step, kContext.step);
  EXPECT_EQ(outline.run_id, kContext.run_id);
  EXPECT_EQ(outline.fingerprint, kContext.fingerprint);
  EXPECT_EQ(outline.payload_bytes, 36u);
  EXPECT_EQ(outline.num_elements, 13u);
  ASSERT_EQ(outline.records.size(), 2u);
  const MessageOutline::Record& biases = outline.records[1];
  EXPECT_EQ(biases.segment, 1u);
  EXPECT_EQ(biases.codec, 1);
  EXPECT_EQ(biases.first, 0u);
  EXPECT_EQ(biases.count, 3u);
  EXPECT_EQ(biases.num_scalers, 1u);
  EXPECT_EQ(biases.bytes, 12u);
  EXPECT_EQ(biases.scalers_at, 64u + 2 * 48 + 16);
  EXPECT_EQ(biases.codes_at, bytes.size() - 12);
  EXPECT_EQ(outline.records[0].format, 1);
  // At any alignment.
  Bytes shifted(bytes.size() + 1);
  std::ranges::copy(bytes, shifted.begin() + 1);
  EXPECT_EQ(outline_message(std::span<const std::uint8_t>(shifted).subspan(1)).records[1].codes_at, biases.codes_at);
}

TEST(WireFormat, OutlinesRefuseWhatIsDamaged) {
  const Bytes right = small_message();
  for (std::size_t bit = 0; bit < 8 * right.size(); ++bit) {
    Bytes wrong = right;
    wrong[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    EXPECT_THROW(outline_message(wrong), CommunicationError) << bit;
  }
  for (std::size_t size = 0; size < right.size(); ++size) {
    EXPECT_THROW(outline_message(std::span<const std::uint8_t>(right).first(size)), CommunicationError) << size;
  }
  // With valid checksums.
  for (const auto& [at, what] : {std::pair{64u + 48 + 24, "outside the payload"},
                                 {64u + 32, "outside the payload"},
                                 {64u + 6, "reserved"},
                                 {64u + 16, "number of elements"}}) {
    Bytes wrong = right;
    wrong[at] = 0xf8;
    fix_checksums(wrong);
    try {
      outline_message(wrong);
      ADD_FAILURE() << at;
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  }
}

TEST(WireFormat, MessagesWithoutRecordsCarryBytes) {
  MessageWriter writer;
  const Bytes content = {1, 2, 3, 4, 5};
  writer.begin(MessageKind::kPush, kContext, 2, 0, max_message_bytes(0, 0, 5));
  writer.add_bytes(content);
  const auto written = writer.finish();
  const Bytes bytes(written.begin(), written.end());
  ASSERT_EQ(bytes.size(), 64u + 5);
  Message message;
  read_message(bytes, MessageKind::kPush, kContext, small_layout(), message);
  EXPECT_EQ(Bytes(message.payload.begin(), message.payload.end()), content);
  EXPECT_EQ(message.worker, 2);
  Bytes damaged = bytes;
  damaged.back() ^= 1;
  EXPECT_THROW(read_message(damaged, MessageKind::kPush, kContext, small_layout(), message), CommunicationError);
  writer.begin(MessageKind::kPush, kContext, 2, 0, max_message_bytes(0, 0, 5));
  EXPECT_THROW(writer.add_bytes(small_message()), InvalidArgument);
  writer.begin(MessageKind::kGradient, kContext, 2, 1, max_message_bytes(1, 0, 5));
  EXPECT_THROW(writer.add_bytes(content), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::wire_format_test
