#include "compress/memory/memory_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::memory_options_test {
namespace {

using ::testing::HasSubstr;

TEST(MemoryOptions, AreReadWithTheirDefaults) {
  EXPECT_EQ(parse_memory("none").kind, MemoryKind::kNone);
  EXPECT_EQ(parse_memory("ef"), (MemoryOptions{MemoryKind::kErrorFeedback, 1}));
  EXPECT_EQ(parse_memory("ef:decay=0.95"), (MemoryOptions{MemoryKind::kErrorFeedback, 0.95}));
  EXPECT_EQ(parse_memory("momentum"), (MemoryOptions{MemoryKind::kMomentum, 0.9}));
  EXPECT_EQ(parse_memory("dgc"), (MemoryOptions{MemoryKind::kDgc, 0.9}));
  EXPECT_EQ(parse_memory("dgc:momentum=0.5,nesterov=true"), (MemoryOptions{MemoryKind::kDgc, 0.5, true}));
}

TEST(MemoryOptions, HaveOneCanonicalText) {
  EXPECT_EQ(canonical_memory("none"), "none");
  EXPECT_EQ(canonical_memory("ef"), "ef:decay=1");
  EXPECT_EQ(canonical_memory("ef:decay=1.0"), "ef:decay=1");
  EXPECT_EQ(canonical_memory("momentum"), "momentum:decay=0.9");
  EXPECT_EQ(canonical_memory("dgc:nesterov=true"), "dgc:momentum=0.9,nesterov=true");
  EXPECT_EQ(canonical_memory("loco"), "loco:decay=0.8,reset=1024");
  EXPECT_EQ(canonical_memory("ef21"), "ef21:decay=0");
}

TEST(MemoryOptions, TakeThisManyBytes) {
  const auto bytes_of = [](const char* spec) { return memory_bytes(parse_memory(spec)); };
  EXPECT_EQ(bytes_of("ef"), 8);
  EXPECT_EQ(bytes_of("none"), 0);
  EXPECT_EQ(bytes_of("momentum"), 8);
  EXPECT_EQ(bytes_of("dgc"), 16);
  EXPECT_EQ(bytes_of("loco"), 5.0625);
  EXPECT_EQ(bytes_of("ef21"), 8);
  EXPECT_EQ(bytes_of("ef21:decay=0.9"), 16);
  EXPECT_EQ(shared_memory_bytes(parse_memory("ef21")), 8);
  EXPECT_EQ(shared_memory_bytes(parse_memory("ef")), 0);
}

TEST(MemoryOptions, RefuseWhatThereIsNot) {
  const auto expect_refused = [](const std::string& text, const std::string& part) {
    try {
      parse_memory(text);
      ADD_FAILURE() << text << " is accepted";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(part)) << text;
    }
  };
  expect_refused("adam", "unknown memory 'adam'; accepted: none, ef, momentum, dgc, loco, ef21");
  expect_refused("dgc:momentum=1", "accepted: a number from 0 to 0.9999");
  expect_refused("dgc:decay=0.9", "there is no key 'decay'; accepted: momentum, nesterov");
  expect_refused("ef:decay=1.5", "accepted: a number from 0 to 1");
  expect_refused("ef:beta=1", "there is no key 'beta'; accepted: decay");
  expect_refused("ef21:decay=1", "accepted: a number from 0 to 0.9999");
  expect_refused("loco:reset=-1", "accepted: an integer from 0");
  expect_refused("none:decay=1", "there is no key 'decay'");
}

}  // namespace
}  // namespace terngrad::memory_options_test
