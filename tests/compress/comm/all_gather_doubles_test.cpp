#include "compress/comm/all_gather_doubles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/runtime/errors.h"
#include "support/thread_communicator.h"

namespace terngrad::all_gather_doubles_test {
namespace {

using ::testing::ElementsAre;

TEST(GatheredNumbers, AreThoseOfAllRanksInOrder) {
  const auto errors = testing::run_ranks(3, [](const std::shared_ptr<Communicator>& communicator) {
    const double rank = communicator->rank();
    const std::array own = {rank + 0.1, -rank};
    EXPECT_THAT(all_gather_doubles(*communicator, own),
                ElementsAre(ElementsAre(0.1, 0), ElementsAre(1.1, -1), ElementsAre(2.1, -2)));
    EXPECT_THAT(max_over_ranks(*communicator, own), ElementsAre(2.1, 0));
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(GatheredNumbers, MayBeNone) {
  const auto self = make_self_communicator();
  EXPECT_THAT(all_gather_doubles(*self, {}), ElementsAre(ElementsAre()));
  EXPECT_THAT(max_over_ranks(*self, {}), ElementsAre());
}

TEST(GatheredNumbers, RanksMustHaveAsMany) {
  testing::run_ranks(2, [](const std::shared_ptr<Communicator>& communicator) {
    const std::vector<double> own(static_cast<std::size_t>(communicator->rank()) + 1);
    EXPECT_THROW(all_gather_doubles(*communicator, own), CommunicationError);
  });
}

}  // namespace
}  // namespace terngrad::all_gather_doubles_test
