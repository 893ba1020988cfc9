#include "compress/comm/mpi/operation_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace terngrad::operation_header_test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::uint64_t> kSizes = {3, 5};
const std::vector<std::uint8_t> kData = {1, 2, 3, 0, 0, 0, 0, 0, 9, 8, 7, 6, 5, 0, 0, 0};

OperationHeader sealed(bool holds_all) {
  OperationHeader header;
  header.kind = 2;
  header.holds_all = holds_all ? 1 : 0;
  header.number = 77;
  header.data_bytes = kData.size();
  header.chunk_bytes = 4096;
  header.num_sizes = static_cast<std::uint32_t>(kSizes.size());
  header.seal(kSizes, kData);
  return header;
}

/// Problem of a message that consists of header, sizes and data.
std::string problem_of(const std::vector<std::uint8_t>& message) {
  OperationHeader header;
  if (std::string problem = read_operation_header(message, header); !problem.empty()) return problem;
  std::vector<std::uint64_t> sizes(kSizes.size());
  std::memcpy(sizes.data(), message.data() + sizeof(header), 8 * sizes.size());
  return check_operation_content(header, sizes, std::span(message).subspan(sizeof(header) + 8 * sizes.size()));
}

std::vector<std::uint8_t> message() {
  const OperationHeader header = sealed(true);
  std::vector<std::uint8_t> bytes(header.bytes().begin(), header.bytes().end());
  const auto* const sizes = reinterpret_cast<const std::uint8_t*>(kSizes.data());
  bytes.insert(bytes.end(), sizes, sizes + 8 * kSizes.size());
  bytes.insert(bytes.end(), kData.begin(), kData.end());
  return bytes;
}

TEST(OperationHeader, IsReadAsItWasSealed) {
  OperationHeader header;
  ASSERT_EQ(read_operation_header(message(), header), "");
  EXPECT_EQ(header.kind, 2);
  EXPECT_EQ(header.number, 77u);
  EXPECT_EQ(header.data_bytes, kData.size());
  EXPECT_EQ(problem_of(message()), "");
  EXPECT_EQ(std::memcmp(message().data(), "TGOP", 4), 0);
}

TEST(OperationHeader, EveryFlippedBitIsRefusedByTheFieldThatShowsIt) {
  const std::vector<std::uint8_t> whole = message();
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::uint8_t> flipped = whole;
    flipped[bit / 8] = static_cast<std::uint8_t>(flipped[bit / 8] ^ (1u << bit % 8));
    const std::size_t byte = bit / 8;
    const char* const field = byte < 4 ? "magic" : byte < 6 ? "version" : byte < 48 ? "header checksum" : "content";
    EXPECT_THAT(problem_of(flipped), HasSubstr(field)) << "bit " << bit;
  }
}

TEST(OperationHeader, DataThatComeByThemselvesAreNotInItsChecksum) {
  const OperationHeader header = sealed(false);
  EXPECT_EQ(check_operation_content(header, kSizes, kData), "");
  EXPECT_EQ(check_operation_content(header, kSizes, {}), "");
  const std::vector<std::uint64_t> others = {5, 3};
  EXPECT_THAT(check_operation_content(header, others, {}), HasSubstr("content checksum"));
}

TEST(OperationHeader, RefusesWhatIsTooShortForOne) {
  OperationHeader header;
  EXPECT_THAT(read_operation_header(std::vector<std::uint8_t>(47), header), HasSubstr("47 bytes"));
  EXPECT_THAT(read_operation_header({}, header), HasSubstr("0 bytes"));
}

}  // namespace
}  // namespace terngrad::operation_header_test
