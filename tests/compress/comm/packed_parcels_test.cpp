#include "compress/comm/packed_parcels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::packed_parcels_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint8_t> bytes_of(const std::vector<std::uint64_t>& words) {
  std::vector<std::uint8_t> bytes(8 * words.size());
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<std::uint8_t> packed(const std::vector<std::string>& texts) {
  Parcels parcels;
  for (const std::string& text : texts) {
    parcels.append({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  return bytes_of(pack_parcels(parcels));
}

std::vector<std::string> texts_of(const Parcels& parcels) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < parcels.count(); ++i) {
    texts.emplace_back(parcels.parcel(i).begin(), parcels.parcel(i).end());
  }
  return texts;
}

TEST(PackedParcels, AreUnpackedBehindWhatIsThere) {
  Parcels all;
  int rank = 0;
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"a", "", "nine char"}, {}, {"exactly8"}, {std::string(1000, 'x')}}) {
    unpack_parcels(packed(texts), "all_gather", rank++, all);
  }
  EXPECT_EQ(texts_of(all), (std::vector<std::string>{"a", "", "nine char", "exactly8", std::string(1000, 'x')}));
}

TEST(PackedParcels, AreReadFromAnyAddress) {
  const std::vector<std::uint8_t> bytes = packed({"abc", "12345678"});
  std::vector<std::uint8_t> shifted(bytes.size() + 1);
  std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
  Parcels all;
  unpack_parcels(std::span<const std::uint8_t>(shifted).subspan(1), "all_to_all", 0, all);
  EXPECT_EQ(texts_of(all), (std::vector<std::string>{"abc", "12345678"}));
}

TEST(PackedParcels, RefuseOtherBytesByOperationAndRank) {
  const std::vector<std::uint8_t> right = packed({"abc", "12345678"});
  std::vector<std::vector<std::uint8_t>> wrong = {{}, bytes_of({1}), bytes_of({1, 8}), bytes_of({~std::uint64_t{0}})};
  // Two sizes whose sum is right only by overflow.
  wrong.push_back(bytes_of({2, ~std::uint64_t{0} - 6, 16, 0}));
  for (std::size_t size = 0; size < right.size(); ++size) {
    wrong.emplace_back(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(size));
  }
  wrong.push_back(right);
  wrong.back().push_back(0);
  for (const std::vector<std::uint8_t>& bytes : wrong) {
    Parcels all;
    try {
      unpack_parcels(bytes, "all_gather", 3, all);
      ADD_FAILURE() << bytes.size() << " bytes were unpacked";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("all_gather gave " + std::to_string(bytes.size()) +
                                          " bytes for rank 3 that are no parcels"));
    }
    EXPECT_EQ(all.count(), 0u);
  }
}

}  // namespace
}  // namespace terngrad::packed_parcels_test
