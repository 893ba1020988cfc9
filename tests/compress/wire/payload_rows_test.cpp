#include "compress/wire/payload_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compress/wire/wire_format.h"

namespace terngrad::payload_rows_test {
namespace {

Layout three_tensors() {
  Layout layout;
  layout.add("w", {9000});
  layout.add("empty", {0});
  layout.add("plain", {33});
  return layout;
}

CodecPlan plan_of(const Layout& layout, const std::string& codec) {
  return {layout, {.codec = codec, .rules = {{"plain", "fp32"}}, .context = {3}}};
}

constexpr WorkerRange kTwoOfThree{.num_workers = 3, .first_local_worker = 1, .num_local_workers = 2};

TEST(PayloadRows, PlacesAreApartAlignedAndAsLongAsTheirPayloads) {
  const Layout layout = three_tensors();
  const CodecPlan plan = plan_of(layout, "ternary");
  PayloadRows rows(plan, kTwoOfThree, shards(layout, 2), PayloadForm::kNatural);
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> places;
  std::int64_t num_elements = 0;
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    const PayloadSlots& slots = rows.slots(group);
    ASSERT_EQ(slots.outgoing.size(), 2 * slots.encoded.size());
    for (std::size_t i = 0; i < slots.outgoing.size(); ++i) {
      const Slice& slice = slots.encoded[i / 2];
      num_elements += i % 2 == 0 ? slice.count : 0;
      const auto begin = reinterpret_cast<std::uintptr_t>(slots.outgoing[i]);
      EXPECT_EQ(begin % 8, 0u);
      const auto room = plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kNatural);
      places.emplace_back(begin, begin + static_cast<std::uintptr_t>(room));
    }
  }
  EXPECT_EQ(num_elements, 9033);
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
}

TEST(PayloadRows, LoopBackPointsToWhatWasEncoded) {
  const Layout layout = three_tensors();
  const CodecPlan plan = plan_of(layout, "ternary");
  PayloadRows rows(plan, {.num_workers = 2, .first_local_worker = 0, .num_local_workers = 2}, shards(layout, 2),
                   PayloadForm::kNatural);
  rows.aggregate_parts(0, 2, std::vector<int>(plan.groups().size(), 2));
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    PayloadSlots& slots = rows.slots(group);
    for (std::size_t i = 0; i < slots.outgoing.size(); ++i) slots.outgoing_bytes[i] = static_cast<std::int64_t>(i) + 1;
  }
  rows.loop_back();
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    const PayloadSlots& slots = rows.slots(group);
    ASSERT_EQ(slots.aggregated, slots.encoded);
    EXPECT_TRUE(std::ranges::equal(slots.incoming, slots.outgoing));
    EXPECT_EQ(slots.incoming_bytes, slots.outgoing_bytes);
  }
}

TEST(PayloadRows, AnEmptySliceHasAPayloadWhereItsFormatHas) {
  const Layout layout = three_tensors();
  for (const char* codec : {"ternary", "ternary:format=tmask"}) {
    const CodecPlan plan(layout, {.codec = codec, .rules = {}, .size_to_binarize = 0, .context = {3}});
    const PayloadRows rows(plan, kTwoOfThree, {whole_segments(layout)}, PayloadForm::kNatural);
    const bool has_payload = plan.codec_of(1).max_payload_bytes({1, 0, 0}, PayloadForm::kNatural) > 0;
    EXPECT_EQ(rows.encoded_index(0, 1) != PayloadRows::kNone, has_payload) << codec;
  }
}

TEST(PayloadRows, MessageBytesAreThoseOfTheMessage) {
  const Layout layout = three_tensors();
  const CodecPlan plan = plan_of(layout, "ternary");
  PayloadRows rows(plan, kTwoOfThree, {whole_segments(layout)}, PayloadForm::kNatural);
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    PayloadSlots& slots = rows.slots(group);
    for (std::size_t i = 0; i < slots.outgoing.size(); ++i) {
      const Slice& slice = slots.encoded[i / 2];
      slots.outgoing_bytes[i] = plan.codec_of(slice.segment).max_payload_bytes(slice, PayloadForm::kNatural);
    }
  }
  MessageSize size(3);
  size.add(1, 9000 / 16 * 4 + 4);
  size.add(0, 0);
  size.add(1, 4 * 33);
  EXPECT_EQ(rows.message_bytes(0, 1), size.bytes());
}

}  // namespace
}  // namespace terngrad::payload_rows_test
