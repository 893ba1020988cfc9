#include "datasets/formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/datasets/npy_files.h"

namespace terngrad::npy_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string refusal(const Bytes& bytes) {
  return data_error([&] { parse_npy("some.npy", bytes); });
}
std::string header_refusal(const std::string& header) { return refusal(npy_file(header, Bytes(6))); }

TEST(Npy, ParsesGoldenBytes) {
  // numpy.save(numpy.arange(6, dtype=numpy.uint8).reshape(2, 3)).
  std::string text = "\x93NUMPY\x01";
  text += '\0';
  text += 'v';
  text += '\0';
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(0x75, ' ');
  text += header + '\n';
  Bytes bytes(text.begin(), text.end());
  ASSERT_EQ(bytes.size(), 128u);
  bytes.insert(bytes.end(), {0, 1, 2, 3, 4, 5});
  const NpyArray array = parse_npy("some.npy", bytes);
  EXPECT_EQ(array.kind, NpyKind::kUnsigned);
  EXPECT_EQ(array.element_bytes, 1u);
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_EQ(array.num_elements, 6);
  EXPECT_THAT(array.data, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Npy, VersionsShapesAndTypes) {
  for (const int version : {1, 2, 3}) {
    const Bytes bytes = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", Bytes(12), version);
    EXPECT_THAT(parse_npy("some.npy", bytes).shape, ElementsAre(3)) << version;
    EXPECT_EQ(parse_npy("some.npy", bytes).kind, NpyKind::kFloat);
  }
  EXPECT_THAT(parse_npy("", npy_file(npy_header("<i8", "()"), Bytes(8))).shape, IsEmpty());
  EXPECT_EQ(parse_npy("", npy_file(npy_header("<i8", "()"), Bytes(8))).num_elements, 1);
  EXPECT_EQ(parse_npy("", npy_file(npy_header("<i2", "(0, 5)"), {})).num_elements, 0);
  EXPECT_THAT(parse_npy("", npy_file("{\"shape\":(1L,2),\"fortran_order\":False,\"descr\":\"|i1\"}", Bytes(2))).shape,
              ElementsAre(1, 2));
  for (const std::string type : {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"}) {
    const std::size_t bytes = static_cast<std::size_t>(type[2] - '0');
    EXPECT_EQ(parse_npy("", npy_file(npy_header(type, "(3,)"), Bytes(3 * bytes))).element_bytes, bytes) << type;
  }
}

TEST(Npy, OtherElementsAreRefused) {
  for (const std::string type :
       {"|O", ">i4", ">f4", "<c8", "<U3", "|S4", "|b1", "<f16", "|u2", "<i3", "", "<", "u1x"}) {
    EXPECT_THAT(header_refusal(npy_header(type, "(6,)")),
                AllOf(HasSubstr("some.npy"), HasSubstr("field descr"), HasSubstr("found " + type)))
        << type;
  }
  EXPECT_THAT(header_refusal("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (6,), }"),
              HasSubstr("found a structure"));
  EXPECT_THAT(header_refusal("{'descr': '|u1', 'fortran_order': True, 'shape': (6,), }"),
              AllOf(HasSubstr("fortran_order"), HasSubstr("ascontiguousarray")));
}

TEST(Npy, DamagedHeadersAreRefused) {
  for (const std::string header :
       {"", "{", "{}", "x", "{'descr'}", "{'descr':", "{'descr': '|u1', 'fortran_order': False}",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '|u1', 'fortran_order': Maybe, 'shape': (6,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-6,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': 6}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), 'more': '1'}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6,)} x", "{'fortran_order': False, 'descr': '|u1}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (6,"}) {
    EXPECT_THAT(header_refusal(header), AllOf(HasSubstr("some.npy"), HasSubstr("field header"))) << header;
  }
}

TEST(Npy, TheBeginningSaysHowLongAFileIs) {
  for (const int version : {1, 2}) {
    const Bytes bytes = npy_file(npy_header("<u2", "(3, 2)"), Bytes(12), version);
    for (const std::size_t missing : {0u, 12u}) {
      EXPECT_EQ(npy_file_bytes("some.npy", std::span(bytes).first(bytes.size() - missing)), bytes.size());
    }
    EXPECT_THAT(data_error([&] { npy_file_bytes("some.npy", std::span(bytes).first(bytes.size() - 13)); }),
                HasSubstr("truncated in field header"));
  }
}

TEST(Npy, ImpossibleShapesAreRefused) {
  EXPECT_THAT(header_refusal(npy_header("|u1", "(99999999999999999999999,)")), HasSubstr("a dimension above 2^48"));
  EXPECT_THAT(header_refusal(npy_header("<f8", "(281474976710656, 281474976710656)")),
              AllOf(HasSubstr("field shape"), HasSubstr("2^48 elements")));
  EXPECT_THAT(header_refusal(npy_header("|u1", "(1" + std::string(200, ',') + ")")), HasSubstr("field header"));
  std::string many = "(";
  for (int i = 0; i < 33; ++i) many += "1,";
  EXPECT_THAT(header_refusal(npy_header("|u1", many + ")")), HasSubstr("more than 32 dimensions"));
}

TEST(Npy, EveryTruncationAndTrailingBytesAreRefused) {
  Bytes bytes = npy_file(npy_header("<u2", "(3, 2)"), Bytes(12));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(refusal(Bytes(bytes.begin(), bytes.begin() + std::ptrdiff_t(length))),
                AllOf(HasSubstr("some.npy"), HasSubstr("truncated")))
        << length;
  }
  bytes.push_back(0);
  EXPECT_THAT(refusal(bytes), HasSubstr("trailing bytes: shape [3, 2] of 2-byte elements needs 12 bytes, found 13"));
  bytes[0] = 'x';
  EXPECT_THAT(refusal(bytes), HasSubstr("not a .npy file"));
  bytes[0] = 0x93;
  EXPECT_THAT(refusal(npy_file(npy_header("<u2", "(3,)") + std::string(kMaxNpyHeaderBytes, ' '), Bytes(6), 2)),
              HasSubstr("field header length: expected at most 65536, found 65594"));
  bytes[6] = 4;
  EXPECT_THAT(refusal(bytes), HasSubstr("expected 1.0, 2.0 or 3.0, found 4.0"));
}

TEST(NpyBeginning, IsWhatNumpyWrites) {
  // numpy.save(numpy.array([3, -1, 4], dtype=numpy.int32)), up to the elements.
  std::string expected =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  expected.resize(127, ' ');
  EXPECT_EQ(npy_beginning(NpyKind::kSigned, 4, {3}), expected + '\n');
}

TEST(NpyBeginning, ElementsThatFollowAreReadBack) {
  const std::vector<std::vector<std::int64_t>> shapes = {{}, {0}, {7}, {2, 3}, {1, 2, 3, 4}};
  for (const NpyKind kind : {NpyKind::kSigned, NpyKind::kUnsigned, NpyKind::kFloat}) {
    for (const std::size_t bytes : {1u, 2u, 4u, 8u}) {
      if (kind == NpyKind::kFloat && bytes == 1) continue;
      for (const std::vector<std::int64_t>& shape : shapes) {
        const std::string beginning = npy_beginning(kind, bytes, shape);
        EXPECT_EQ(beginning.size() % 64, 0u);
        Bytes file(beginning.begin(), beginning.end());
        std::int64_t count = 1;
        for (const std::int64_t side : shape) count *= side;
        file.resize(file.size() + static_cast<std::size_t>(count) * bytes);
        const NpyArray array = parse_npy("some.npy", file);
        EXPECT_EQ(array.kind, kind);
        EXPECT_EQ(array.element_bytes, bytes);
        EXPECT_EQ(array.shape, shape);
      }
    }
  }
}

TEST(NpyBeginning, WhatTheFormatHasNotIsRefused) {
  EXPECT_THROW(npy_beginning(NpyKind::kFloat, 1, {3}), InvalidArgument);
  EXPECT_THROW(npy_beginning(NpyKind::kSigned, 3, {3}), InvalidArgument);
  EXPECT_THROW(npy_beginning(NpyKind::kSigned, 4, {3, -1}), InvalidArgument);
  EXPECT_THROW(npy_beginning(NpyKind::kSigned, 4, std::vector<std::int64_t>(40000, 1)), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::npy_test
