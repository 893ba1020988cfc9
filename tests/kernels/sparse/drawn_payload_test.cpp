#include "kernels/sparse/drawn_payload.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/codes/drawn_cases.h"

namespace terngrad::drawn_payload_test {
namespace {

using testing::DrawnCase;
using Bytes = std::vector<std::uint8_t>;

/// Sent elements, by the formula.
std::vector<float> expected_elements(const DrawnCase& c, float factor) {
  std::vector<float> out(c.values.size());
  const auto key = draw_block({testing::kDrawnSeed, testing::kDrawnStep, 0, DrawPurpose::kSelect},
                              static_cast<std::uint64_t>(c.draw_offset) / 4);
  const DrawKey select{key[0] | std::uint64_t{key[1]} << 32, 0, 0, DrawPurpose::kSelect};
  const auto q = static_cast<std::uint64_t>(c.shape.group_elements);
  for (std::uint64_t group = 0; group * q < static_cast<std::uint64_t>(c.shape.first + c.shape.count); ++group) {
    const auto place = static_cast<std::int64_t>(group * q + (draw32(select, group) * q >> 32)) - c.shape.first;
    if (place < 0 || place >= c.shape.count || !c.is_finite) continue;
    const auto at = static_cast<std::size_t>(place);
    const float value = factor * c.values[at];
    out[at] = c.shape.values == SparseValues::kFloat32 ? value : from_bfloat16(to_bfloat16(value));
  }
  return out;
}

TEST(DrawnPayload, HoldsTheElementsOfTheFormula) {
  for (const SparseValues values : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    for (const DrawnCase& c : testing::drawn_cases(values)) {
      for (const float factor : {1.0f, 10.0f}) {
        const Bytes payload = testing::drawn_on_cpu(c, factor);
        ASSERT_NO_THROW(check_drawn(c.shape, payload)) << c.text();
        std::vector<float> out(c.values.size());
        decode_drawn(c.shape, payload, 0, out);
        ASSERT_EQ(testing::bits_of(out), testing::bits_of(expected_elements(c, factor))) << c.text();
        const std::size_t half = out.size() / 2;
        std::vector<float> part(out.size() - half);
        decode_drawn(c.shape, payload, static_cast<std::int64_t>(half), part);
        ASSERT_EQ(part, std::vector<float>(out.begin() + static_cast<std::ptrdiff_t>(half), out.end())) << c.text();
        ASSERT_EQ(testing::drawn_on_cpu(c, factor, 3), payload) << c.text();
      }
    }
  }
}

TEST(DrawnPayload, AddsUpWhatWorkersSent) {
  for (const SparseValues values : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    for (const DrawnCase& first : testing::drawn_cases(values)) {
      std::vector<Bytes> payloads;
      std::vector<std::vector<float>> sent;
      for (std::uint64_t worker = 0; worker < 3; ++worker) {
        DrawnCase c = first;
        if (worker > 0) c.values = testing::gaussian(c.values.size(), worker);
        c.is_finite = c.is_finite || worker > 0;
        payloads.push_back(testing::drawn_on_cpu(c));
        sent.push_back(expected_elements(c, 1));
      }
      std::vector<float> expected(first.values.size());
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = (sent[0][i] + sent[1][i] + sent[2][i]) * 0.25f;
      const std::vector<const std::uint8_t*> pointers = {payloads[0].data(), payloads[1].data(), payloads[2].data()};
      for (const int num_threads : {1, 2}) {
        std::vector<float> out(expected.size(), 9);
        const DrawnSumTask task{.shape = first.shape, .payloads = pointers, .scale = 0.25f, .out = out.data()};
        Stream stream(Device::cpu(), num_threads);
        DrawnSummer().run({&task, 1}, stream);
        for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], expected[i]) << first.text() << ", " << i;
      }
    }
  }
}

TEST(DrawnPayload, AddsUpWhatOtherStepsChoseToo) {
  const DrawnCase c{testing::gaussian(300, 1), {0, 300, 10, SparseValues::kFloat32}};
  const Bytes now = testing::drawn_on_cpu(c);
  const Bytes later = testing::drawn_on_cpu(c, 1, 1, testing::kDrawnStep + 1);
  std::vector<float> a(300), b(300), out(300);
  decode_drawn(c.shape, now, 0, a);
  decode_drawn(c.shape, later, 0, b);
  const std::vector<const std::uint8_t*> pointers = {now.data(), later.data()};
  const DrawnSumTask task{.shape = c.shape, .payloads = pointers, .out = out.data()};
  Stream stream(Device::cpu(), 1);
  DrawnSummer().run({&task, 1}, stream);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i]);
}

TEST(DrawnPayload, RefusesWhatNoEncoderWrites) {
  // The slice starts and ends inside of groups, so that some steps draw an element outside of it.
  const DrawnCase c{testing::gaussian(4100, 1), {4096, 4100, 100, SparseValues::kBfloat16}};
  Bytes payload = testing::drawn_on_cpu(c);
  EXPECT_NO_THROW(check_drawn(c.shape, payload));
  EXPECT_THROW(check_drawn(c.shape, std::span(payload).first(payload.size() - 4)), CommunicationError);
  EXPECT_THROW(check_drawn({0, 0, 100, SparseValues::kBfloat16}, payload), CommunicationError);
  bool has_outside = false;
  for (std::uint64_t step = 0; step < 20 && !has_outside; ++step) {
    payload = testing::drawn_on_cpu(c, 1, 1, step);
    std::uint16_t value = 0;
    std::memcpy(&value, payload.data() + kDrawnKeyBytes, sizeof value);
    if (value != 0) continue;
    has_outside = true;
    payload[kDrawnKeyBytes] = 1;
    EXPECT_THROW(check_drawn(c.shape, payload), CommunicationError);
  }
  EXPECT_TRUE(has_outside);
}

TEST(DrawnPayload, RefusesTasksThatCannotBe) {
  Stream stream(Device::cpu(), 1);
  std::vector<std::uint64_t> payload(10);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(payload.data());
  const std::vector<float> values(20);
  const DrawnEncodeTask good{.values = values.data(), .shape = {.count = 10}, .payload = bytes};
  const std::uint64_t step = 0;
  const auto run = [&](DrawnEncodeTask task) {
    const std::vector<DrawnEncodeTask> tasks = {good, task};
    DrawnEncoder().run(tasks, 1, 0, 0, stream);
  };
  DrawnEncodeTask bad = good;
  bad.shape.count = 0;
  EXPECT_THROW(run(bad), InvalidArgument);
  bad = good;
  bad.type = ElementType::kFloat16;
  EXPECT_THROW(run(bad), InvalidArgument);
  bad = good;
  bad.payload += 4;
  EXPECT_THROW(run(bad), InvalidArgument);
  EXPECT_THROW(DrawnEncoder().run({&good, 1}, 1, 0, 0, stream, &step), InvalidArgument);
  const DrawnSumTask empty{.shape = {.count = 10}};
  EXPECT_THROW(DrawnSummer().run({&empty, 1}, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::drawn_payload_test
