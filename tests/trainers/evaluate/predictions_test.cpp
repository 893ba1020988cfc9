#include "trainers/evaluate/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "datasets/formats/npy.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::predictions_test {
namespace {

using testing::TemporaryDirectory;

std::vector<std::int32_t> read(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file_bytes(path);
  const NpyArray array = parse_npy(path.string(), {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  EXPECT_EQ(array.kind, NpyKind::kSigned);
  EXPECT_EQ(array.element_bytes, 4u);
  EXPECT_EQ(array.shape.size(), 1u);
  std::vector<std::int32_t> values(static_cast<std::size_t>(array.num_elements));
  std::ranges::copy(array.data, reinterpret_cast<std::uint8_t*>(values.data()));
  return values;
}

TEST(Predictions, AreAnArrayOfInt32) {
  const TemporaryDirectory folder;
  const std::vector<std::int32_t> predicted = {3, 0, -1, 9};
  write_predictions(folder / "p.npy", predicted);
  EXPECT_EQ(read(folder / "p.npy"), predicted);
  // An existing file is replaced completely.
  write_predictions(folder / "p.npy", std::vector<std::int32_t>{7});
  EXPECT_THAT(read(folder / "p.npy"), ::testing::ElementsAre(7));
  write_predictions(folder / "p.npy", {});
  EXPECT_THAT(read(folder / "p.npy"), ::testing::IsEmpty());
}

TEST(Predictions, WhereNothingCanBeWrittenIsAnError) {
  const TemporaryDirectory folder;
  EXPECT_THROW(write_predictions(folder / "none" / "p.npy", std::vector<std::int32_t>{7}), DataError);
}

}  // namespace
}  // namespace terngrad::predictions_test
