#include "datasets/formats/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/datasets/data_files.h"

namespace terngrad::file_kind_test {
namespace {

using ::testing::HasSubstr;

std::string kind(const std::string& text) { return looks_like(Bytes(text.begin(), text.end())); }

TEST(FileKind, IsNamedByTheFirstBytes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0", "; it looks like a pointer of Git LFS"},
      {"\n <!doctype HTML>", "an HTML page"},
      {"<html lang=en>", "an HTML page"},
      {"<?xml version='1.0'?><Error>", "an XML document"},
      {"\x78\xda", "zlib data"},
      {"PK\x03\x04rest", "a zip archive"},
      {"\x80\x04\x95", "a pickle"},
      {std::string(257, 'n') + "ustar", "a tar archive"},
      {"RIFF1234WEBPVP8 ", "a WebP image"},
      {{"\0\0\x0c\x02", 4}, "the labels of QMNIST"}};
  for (const auto& [text, expected] : cases) EXPECT_THAT(kind(text), HasSubstr(expected));
}

TEST(FileKind, OfOtherBytesIsNotSaid) {
  for (const char* text : {"", "P", "RIFF", "<table>", "\x07pixels"}) EXPECT_EQ(kind(text), "");
}

}  // namespace
}  // namespace terngrad::file_kind_test
