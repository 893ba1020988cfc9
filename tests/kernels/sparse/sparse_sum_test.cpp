#include "kernels/sparse/sparse_sum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codes/sparse_cases.h"

namespace terngrad::sparse_sum_test {
namespace {

using testing::SparseCase;

std::vector<float> summed(const std::vector<SparseMessage>& messages, float scale, int num_threads = 1) {
  std::vector<float> out(static_cast<std::size_t>(messages[0].shape.num_elements), 99.0f);
  const SparseSumTask task{.workers = messages, .scale = scale, .out = out.data()};
  Stream stream(Device::cpu(), num_threads);
  SparseSummer().run({&task, 1}, stream);
  return out;
}

TEST(SparseSummer, AddsInOrderOfWorkersWhatWasSent) {
  for (const std::int64_t block : {0, 512}) {
    const SparseFormat format = block == 0 ? SparseFormat::kRuns : SparseFormat::kLocal;
    std::vector<std::vector<std::uint8_t>> payloads;
    std::vector<SparseMessage> messages;
    std::vector<float> expected(70000);
    for (std::uint64_t worker = 0; worker < 5; ++worker) {
      const SparseCase c = testing::sparse_case("", testing::gaussian(70000, worker), format, 0.2, block);
      payloads.push_back(testing::encoded_on_cpu(c));
      std::vector<float> own(expected.size());
      add_sparse(c.shape, payloads.back(), 0, own);
      for (std::size_t i = 0; i < own.size(); ++i) expected[i] += own[i];
      messages.push_back({c.shape, {}});
    }
    for (std::size_t worker = 0; worker < 5; ++worker) messages[worker].payload = payloads[worker];
    for (float& value : expected) value *= 0.2f;
    for (const int num_threads : {1, 3}) {
      EXPECT_EQ(testing::bits_of(summed(messages, 0.2f, num_threads)), testing::bits_of(expected));
    }
  }
}

TEST(SparseSummer, TakesMessagesOfDifferentDensities) {
  const SparseCase few = testing::sparse_case("", {1, 0, 0, 8}, SparseFormat::kRuns, 0.25);
  const SparseCase many = testing::sparse_case("", {1, 2, 3, -4}, SparseFormat::kRuns, 0.75);
  const auto of_few = testing::encoded_on_cpu(few);
  const auto of_many = testing::encoded_on_cpu(many);
  EXPECT_EQ(summed({{few.shape, of_few}, {many.shape, of_many}}, 1), (std::vector<float>{0, 2, 3, 4}));
}

TEST(SparseSummer, RefusesWhatDoesNotAddUp) {
  Stream stream(Device::cpu(), 1);
  std::vector<float> out(10);
  const SparseSumTask empty{.out = out.data()};
  EXPECT_THROW(SparseSummer().run({&empty, 1}, stream), InvalidArgument);
  const std::vector<SparseMessage> sizes = {{{.num_elements = 10, .density = 1}, {}},
                                            {{.num_elements = 9, .density = 1}, {}}};
  const SparseSumTask different{.workers = sizes, .out = out.data()};
  EXPECT_THROW(SparseSummer().run({&different, 1}, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::sparse_sum_test
