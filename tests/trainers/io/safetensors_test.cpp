#include "trainers/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::safetensors_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

SafetensorsFile parse(const std::string& text) { return SafetensorsFile::parse(to_bytes(text), "file"); }

// A file with this header, padded, and `num_data_bytes` zero bytes.
std::string with_header(std::string header, std::size_t num_data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(num_data_bytes, '\0');
}

std::string refusal(const std::string& header, std::size_t num_data_bytes = 0) {
  return message_of<DataError>([&] { parse(with_header(header, num_data_bytes)); });
}

const float kFloats[3] = {1.0f, -2.0f, 0.5f};
const std::uint8_t kCodes[2] = {7, 9};

std::vector<TensorRecord> small_records() {
  return {{.name = "codes", .type = TensorType::kU8, .shape = {2}, .bytes = std::as_bytes(std::span(kCodes))},
          {.name = "w", .type = TensorType::kF32, .shape = {3, 1}, .bytes = std::as_bytes(std::span(kFloats))}};
}

std::string small_file() {
  const std::vector<TensorRecord> records = small_records();
  return SafetensorsImage(records, {{"step", "7"}}).to_string();
}

TEST(Safetensors, GoldenBytes) {
  const std::string header = R"({"__metadata__":{"step":"7"},"w":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},)"
                             R"("codes":{"dtype":"U8","shape":[2],"data_offsets":[12,14]}})";
  ASSERT_EQ(header.size(), 143u);
  const std::string expected =
      std::string("\x90\0\0\0\0\0\0\0", 8) + header + " " + std::string("\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f\x07\x09", 14);
  EXPECT_EQ(small_file(), expected);
}

TEST(Safetensors, RoundTripsEveryTypeAndShape) {
  const std::string data(48, 'x');
  const std::vector<std::pair<TensorType, std::vector<std::int64_t>>> cases = {
      {TensorType::kBool, {48}},      {TensorType::kU8, {48}},       {TensorType::kI8, {2, 24}},
      {TensorType::kU16, {24}},       {TensorType::kI16, {24}},      {TensorType::kF16, {24}},
      {TensorType::kBf16, {2, 3, 4}}, {TensorType::kU32, {12}},      {TensorType::kI32, {12}},
      {TensorType::kF32, {12, 1, 1}}, {TensorType::kU64, {6}},       {TensorType::kI64, {3, 2}},
      {TensorType::kF64, {6}},        {TensorType::kF64, {0, 1000}}, {TensorType::kF32, {}}};
  std::vector<TensorRecord> records;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::size_t num_bytes = static_cast<std::size_t>(tensor_type_bytes(cases[i].first));
    for (const std::int64_t dimension : cases[i].second) num_bytes *= static_cast<std::size_t>(dimension);
    records.push_back({.name = "t" + std::to_string(i),
                       .type = cases[i].first,
                       .shape = cases[i].second,
                       .bytes = std::as_bytes(std::span(data).first(num_bytes))});
  }
  const SafetensorsFile file = parse(SafetensorsImage(records, {}).to_string());
  EXPECT_TRUE(file.metadata().empty());
  ASSERT_EQ(file.tensors().size(), records.size());
  for (const TensorRecord& record : records) {
    const TensorRecord* found = file.find(record.name);
    ASSERT_NE(found, nullptr) << record.name;
    EXPECT_EQ(found->type, record.type);
    EXPECT_EQ(found->shape, record.shape);
    ASSERT_EQ(found->bytes.size(), record.bytes.size());
    EXPECT_TRUE(std::ranges::equal(found->bytes, record.bytes));
  }
  EXPECT_EQ(file.find("t"), nullptr);
}

TEST(Safetensors, EveryTensorIsAlignedToItsElementSize) {
  const SafetensorsFile file = parse(small_file());
  for (const TensorRecord& tensor : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) %
                  static_cast<std::uintptr_t>(tensor_type_bytes(tensor.type)),
              0u);
  }
}

TEST(Safetensors, NoTensorsAtAllIsAFileToo) {
  EXPECT_EQ(parse(SafetensorsImage({}, {}).to_string()).tensors().size(), 0u);
}

TEST(Safetensors, NamesAndMetadataAreEscaped) {
  const std::string odd = "a\"b\\c\n\xc3\xa9/\x01";
  const TensorRecord record{.name = odd, .type = TensorType::kU8, .shape = {0}, .bytes = {}};
  const SafetensorsFile file = parse(SafetensorsImage(std::span(&record, 1), {{odd, odd}}).to_string());
  EXPECT_NE(file.find(odd), nullptr);
  EXPECT_EQ(file.metadata().at(odd), odd);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = small_file();
  EXPECT_NO_THROW(parse(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(parse(whole.substr(0, length)), DataError) << length;
  }
  EXPECT_THROW(parse(whole + '\0'), DataError);
}

TEST(Safetensors, NoBitFlipReadsOutsideTheFile) {
  // The address sanitizer checks this; without it, the test shows that damage throws only DataError.
  const std::string whole = small_file();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      const SafetensorsFile file = parse(damaged);
      for (const TensorRecord& tensor : file.tensors()) {
        EXPECT_EQ(tensor.num_elements() * tensor_type_bytes(tensor.type),
                  static_cast<std::int64_t>(tensor.bytes.size()));
      }
    } catch (const DataError&) {
    }
  }
}

TEST(Safetensors, OverlappingOffsetsAreRefused) {
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                      12),
              HasSubstr("tensor 'b': data_offsets begin at 4, expected 8 (it overlaps"));
}

TEST(Safetensors, GapsAndTrailingBytesAreRefused) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})";
  EXPECT_THAT(refusal(header, 3), HasSubstr("there is a gap before it"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3), HasSubstr("has 3 bytes of data"));
}

TEST(Safetensors, OffsetsOutsideTheDataAreRefused) {
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3), HasSubstr("lie outside"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 3), HasSubstr("lie outside"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[-1,3]}})", 3),
              HasSubstr("tensor 'a': data_offsets holds -1"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]}})", 3),
              HasSubstr("18446744073709551615"));
}

TEST(Safetensors, SizesThatDisagreeOrOverflowAreRefused) {
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              HasSubstr("tensor 'a': F32 [2] does not take the 4 bytes"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
              HasSubstr("does not take"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), HasSubstr("shape holds 1.5"));
}

TEST(Safetensors, RepeatedNamesAreRefused) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(refusal("{" + entry + "," + entry + "}"), HasSubstr("'a' occurs twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("'shape' occurs twice"));
}

TEST(Safetensors, HeadersOfTheWrongFormAreRefused) {
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(" {}"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(std::string("{}\0hidden", 9)), HasSubstr("zero byte"));
  EXPECT_THAT(refusal("{\"a\":"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"\xff\":1}"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(R"({"a":1})"), HasSubstr("tensor 'a' is not an object"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[]}})"), HasSubstr("tensor 'a' has no data_offsets"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4), HasSubstr("unknown dtype"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", 4), HasSubstr("fields other"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4), HasSubstr("shape is not a list"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 4), HasSubstr("not [begin, end]"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"step":7}})"), HasSubstr("'step' is not a string"));
  EXPECT_THAT(refusal(R"({"__metadata__":[]})"), HasSubstr("__metadata__ is not an object"));
  EXPECT_THAT(refusal(R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), HasSubstr("no name"));
  EXPECT_THAT(refusal("{\"a\":" + std::string(100000, '[')), HasSubstr("nested too deeply"));
}

TEST(Safetensors, HeaderLengthsOutOfRangeAreRefused) {
  EXPECT_THAT(message_of<DataError>([] { parse(std::string(8, '\xff') + "{}"); }), HasSubstr("exceeds the limit"));
  EXPECT_THAT(message_of<DataError>([] { parse(std::string("\x08\0\0\0\0\0\0\0{}", 10)); }), HasSubstr("2 bytes"));
}

TEST(Safetensors, WriterRefusesRecordsThatDoNotFit) {
  const auto write = [](const std::vector<TensorRecord>& records) { SafetensorsImage(records, {}); };
  std::vector<TensorRecord> records = small_records();
  records[0].shape = {3};
  EXPECT_THROW(write(records), InvalidArgument);
  records = small_records();
  records[0].name = records[1].name;
  EXPECT_THROW(write(records), InvalidArgument);
  for (const char* name : {"", "__metadata__", "\xff"}) {
    records[0].name = name;
    records[0].shape = {2};
    EXPECT_THROW(write(records), InvalidArgument) << name;
  }
}

TEST(Safetensors, ErrorsNameTheFile) {
  const TemporaryDirectory folder;
  const auto path = folder.write("x.safetensors", "short");
  EXPECT_THAT(message_of<DataError>([&] { SafetensorsFile::read(path); }), HasSubstr(path.string()));
}

TEST(Safetensors, WritesAFileThatReadsBack) {
  const TemporaryDirectory folder;
  const std::vector<TensorRecord> records = small_records();
  write_safetensors(folder / "a", records, {{"step", "7"}});
  EXPECT_EQ(read_file_text(folder / "a"), small_file());
  const SafetensorsFile file = SafetensorsFile::read(folder / "a");
  EXPECT_EQ(file.metadata().at("step"), "7");
}

}  // namespace
}  // namespace terngrad::safetensors_test
