#include "kernels/sparse/sparse_payload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/sparse/top_k.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::sparse_payload_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Chosen {
  std::vector<std::uint32_t> places;
  std::vector<float> values;
};

/// The largest elements of a slice, or of each of its blocks.
Chosen chosen(const SparseShape& shape, const std::vector<float>& elements) {
  Chosen result;
  const std::int64_t run = shape.format == SparseFormat::kLocal ? shape.block_elements : shape.num_elements;
  Stream stream;
  TopKSelector selector;
  for (std::int64_t first = 0; first < shape.num_elements; first += run) {
    const std::int64_t count = std::min(run, shape.num_elements - first);
    const auto places =
        selector.run(elements.data() + first, ElementType::kFloat32, count, top_k_count(count, shape.density), stream);
    for (const std::uint32_t place : places) {
      result.places.push_back(static_cast<std::uint32_t>(first) + place);
      result.values.push_back(elements[result.places.back()]);
    }
  }
  return result;
}

Bytes written(const SparseShape& shape, const Chosen& sent) {
  const auto most = static_cast<std::size_t>(max_sparse_bytes(shape));
  std::vector<std::uint64_t> words((most + 7) / 8, ~std::uint64_t{0});  // canary for bytes that encode leaves unwritten
  auto* const payload = reinterpret_cast<std::uint8_t*>(words.data());
  const std::int64_t bytes = write_sparse(shape, sent.places, sent.values, payload);
  EXPECT_LE(bytes, static_cast<std::int64_t>(most));
  return {payload, payload + bytes};
}

/// All elements, decoded in pieces of `piece` elements.
std::vector<float> read(const SparseShape& shape, const Bytes& payload, std::int64_t piece) {
  std::vector<float> out(static_cast<std::size_t>(shape.num_elements));
  for (std::int64_t first = 0; first < shape.num_elements; first += piece) {
    const std::int64_t count = std::min(piece, shape.num_elements - first);
    add_sparse(shape, payload, first,
               std::span(out).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  }
  return out;
}

std::vector<SparseShape> shapes() {
  std::vector<SparseShape> result;
  for (const SparseValues values : {SparseValues::kFloat32, SparseValues::kBfloat16}) {
    for (const std::int64_t n : {1, 100, 129, 4096, 5000, 100001}) {
      for (const double density : {0.001, 0.01, 0.1, 1.0}) {
        result.push_back({.format = SparseFormat::kRuns, .values = values, .num_elements = n, .density = density});
        for (const std::int64_t block : {256, 4096, 65536}) {
          result.push_back({SparseFormat::kLocal, values, n, density, block});
        }
      }
    }
  }
  return result;
}

TEST(SparsePayload, BringsBackWhatWasWritten) {
  for (const SparseShape& shape : shapes()) {
    SCOPED_TRACE(std::to_string(shape.num_elements) + " " + std::to_string(shape.density) + " " +
                 std::to_string(shape.block_elements));
    const std::vector<float> elements = testing::gaussian(static_cast<std::size_t>(shape.num_elements), 3);
    const Chosen sent = chosen(shape, elements);
    ASSERT_EQ(static_cast<std::int64_t>(sent.places.size()), num_kept(shape));
    std::vector<float> expected(elements.size());
    for (std::size_t i = 0; i < sent.places.size(); ++i) {
      expected[sent.places[i]] =
          shape.values == SparseValues::kFloat32 ? sent.values[i] : from_bfloat16(to_bfloat16(sent.values[i]));
    }
    const Bytes payload = written(shape, sent);
    ASSERT_NO_THROW(check_sparse(shape, payload));
    if (shape.format == SparseFormat::kLocal) {
      EXPECT_EQ(static_cast<std::int64_t>(payload.size()), max_sparse_bytes(shape));
    }
    for (const std::int64_t piece : {std::int64_t{4096}, shape.num_elements}) {
      EXPECT_EQ(testing::bits_of(read(shape, payload, piece)), testing::bits_of(expected));
    }
  }
}

TEST(SparsePayload, GoldenBytesOfRuns) {
  // Gaps 0, 9 and 1 take 4 bits: 0, 0 | 9 << 4 | 1 << 8, after place 3.
  const SparseShape shape{.num_elements = 40, .density = 0.075};
  EXPECT_EQ(written(shape, {{3, 13, 15}, {1.0f, -2.0f, 0.5f}}),
            (Bytes{3, 0, 0,    0,    0, 0, 0, 0,    3, 0, 0, 0,   4, 0, 0, 0, 0x90, 0x01, 0, 0,  //
                   0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f}));
}

TEST(SparsePayload, GoldenBytesOfLocalPlaces) {
  // 2 of the first 256 elements and 1 of the other 44: places of 8 bits.
  const SparseShape shape{SparseFormat::kLocal, SparseValues::kBfloat16, 300, 0.0078125, 256};
  EXPECT_EQ(written(shape, {{1, 255, 258}, {1.0f, -2.0f, 0.5f}}),
            (Bytes{1, 255, 2, 0, 0x80, 0x3f, 0, 0xc0, 0, 0x3f, 0, 0}));
}

TEST(SparsePayload, SaysWhereAGroupsGapsBegin) {
  // Two groups of 128 places: the second starts 4 words per bit of width after the first.
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < 200; ++i) places.push_back(i < 128 ? 5 * i : 1000 + i);
  const SparseShape shape{.num_elements = 2000, .density = 0.1};
  const Bytes payload = written(shape, {places, std::vector<float>(200, 1.0f)});
  std::uint32_t widths[2] = {};
  std::memcpy(&widths[0], payload.data() + 12, 4);
  std::memcpy(&widths[1], payload.data() + 20, 4);
  EXPECT_EQ(widths[0], 3u);
  EXPECT_EQ(widths[1], 3u << 6);
  EXPECT_EQ(payload.size(), 8u + 16 + 4 * 4 * 3 + 4 * 200);
}

TEST(SparsePayload, RefusesDamageOrReadsWithinBounds) {
  for (const SparseShape& shape : {SparseShape{.num_elements = 3000, .density = 0.1},
                                   SparseShape{SparseFormat::kRuns, SparseValues::kBfloat16, 900, 0.017, 0},
                                   SparseShape{SparseFormat::kLocal, SparseValues::kBfloat16, 600, 0.05, 256}}) {
    const Bytes good =
        written(shape, chosen(shape, testing::gaussian(static_cast<std::size_t>(shape.num_elements), 4)));
    const auto refused = [&](const Bytes& payload) {
      try {
        check_sparse(shape, payload);
      } catch (const CommunicationError&) {
        return true;
      }
      read(shape, payload, 4096);
      return false;
    };
    EXPECT_FALSE(refused(good));
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{3}, std::size_t{8}, good.size() / 2, good.size() - 4, good.size() - 1}) {
      EXPECT_TRUE(refused(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)))) << bytes;
    }
    Bytes longer = good;
    longer.resize(good.size() + 4);
    EXPECT_TRUE(refused(longer));
    int num_refused = 0;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Bytes damaged = good;
      damaged[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
      num_refused += refused(damaged) ? 1 : 0;
    }
    EXPECT_GT(num_refused, 100);
  }
}

TEST(SparsePayload, RefusesPlacesThatNoEncoderWrites) {
  const SparseShape shape{.num_elements = 40, .density = 0.075};
  const Bytes good = written(shape, {{3, 13, 15}, {1.0f, -2.0f, 0.5f}});
  const auto expect_refused = [&](std::size_t byte, std::uint8_t value, const char* why) {
    Bytes damaged = good;
    damaged[byte] = value;
    EXPECT_THROW(check_sparse(shape, damaged), CommunicationError) << why;
  };
  expect_refused(0, 2, "another number of places");
  expect_refused(4, 1, "a reserved word");
  expect_refused(8, 30, "beyond the slice");
  expect_refused(12, 5, "a width that is not needed");
  expect_refused(12, 63, "a width that cannot be");
  expect_refused(16, 0x91, "a first gap");
  expect_refused(18, 1, "padding");
}

TEST(SparsePayload, RefusesSlicesThatDoNotFit) {
  EXPECT_NO_THROW(max_sparse_bytes({.num_elements = (std::int64_t{1} << 32) - 1, .density = 0.001}));
  EXPECT_THROW(max_sparse_bytes({.num_elements = std::int64_t{1} << 32, .density = 0.001}), InvalidArgument);
  EXPECT_THROW(max_sparse_bytes({.num_elements = std::int64_t{1} << 31, .density = 1}), InvalidArgument);
  const float value = 1;
  const std::uint32_t place = 0;
  EXPECT_THROW(write_sparse({.num_elements = 1000, .density = 0.01}, {&place, 1}, {&value, 1}, nullptr),
               InvalidArgument);
}

}  // namespace
}  // namespace terngrad::sparse_payload_test
