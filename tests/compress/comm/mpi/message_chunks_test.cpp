#include "compress/comm/mpi/message_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace terngrad::message_chunks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::vector<std::uint8_t>> pieces(std::size_t bytes, std::size_t piece_bytes) {
  std::vector<std::uint8_t> message(bytes);
  std::iota(message.begin(), message.end(), std::uint8_t{0});
  std::vector<std::vector<std::uint8_t>> result;
  for_each_piece(std::span<const std::uint8_t>(message), piece_bytes,
                 [&](std::span<const std::uint8_t> piece) { result.emplace_back(piece.begin(), piece.end()); });
  return result;
}

TEST(MessagePieces, AreInOrderAndOfOneSizeButTheLast) {
  EXPECT_THAT(pieces(7, 3), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6)));
  EXPECT_THAT(pieces(6, 3), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(pieces(2, 1), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(pieces(2, kMaxPieceBytes), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(pieces(0, 3), IsEmpty());
}

TEST(MessagePieces, MayBeWritten) {
  std::vector<int> message(5);
  int number = 0;
  for_each_piece(std::span<int>(message), 2, [&](std::span<int> piece) { std::ranges::fill(piece, ++number); });
  EXPECT_THAT(message, ElementsAre(1, 1, 2, 2, 3));
}

TEST(MessagePieces, NumbersThatCannotBeAreFound) {
  EXPECT_TRUE(is_sound_message(0, 1));
  EXPECT_TRUE(is_sound_message((std::uint64_t{1} << 48) - 1, kMaxPieceBytes));
  EXPECT_FALSE(is_sound_message(std::uint64_t{1} << 48, 1));
  EXPECT_FALSE(is_sound_message(~std::uint64_t{0}, 1));
  EXPECT_FALSE(is_sound_message(0, 0));
  EXPECT_FALSE(is_sound_message(0, kMaxPieceBytes + 1));
}

TEST(MessagePieces, SizesOfParcelsAddUpToTheirStorage) {
  const auto are_sizes = [](std::uint64_t bytes, const std::vector<std::uint64_t>& sizes) {
    return are_sizes_of(bytes, sizes);
  };
  EXPECT_TRUE(are_sizes(0, {}));
  EXPECT_TRUE(are_sizes(0, {0, 0}));
  EXPECT_TRUE(are_sizes(24, {1, 0, 16}));
  EXPECT_FALSE(are_sizes(16, {1, 0, 16}));
  EXPECT_FALSE(are_sizes(32, {1, 0, 16}));
  EXPECT_FALSE(are_sizes(7, {7}));
  // Sums that overflow.
  EXPECT_FALSE(are_sizes(0, {~std::uint64_t{0}}));
  EXPECT_FALSE(are_sizes(0, std::vector<std::uint64_t>(16, std::uint64_t{1} << 63)));
  EXPECT_FALSE(are_sizes(8, {~std::uint64_t{0}, 8}));
  EXPECT_FALSE(are_sizes(std::uint64_t{1} << 60, {std::uint64_t{1} << 60}));
  EXPECT_FALSE(are_sizes(~std::uint64_t{0}, {~std::uint64_t{0}}));
}

}  // namespace
}  // namespace terngrad::message_chunks_test
