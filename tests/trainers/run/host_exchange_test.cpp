#include "trainers/run/host_exchange.h"

#include <gtest/gtest.h>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/gradient_exchange.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/layout.h"

namespace terngrad::host_exchange_test {
namespace {

HostExchange exchange_with(const std::string& memory) {
  Layout layout;
  layout.add("w", {100});
  return make_host_exchange(layout, make_worker_group(2, make_self_communicator()), {}, {{0}}, memory, nullptr);
}

TEST(HostExchange, HasTheMemoryThatIsAskedFor) {
  EXPECT_EQ(exchange_with("none").exchange->memory(), nullptr);
  EXPECT_NE(exchange_with("ef").exchange->memory(), nullptr);
  EXPECT_THROW(exchange_with("nothing"), InvalidArgument);
}

TEST(HostExchange, HasTheSamePlanWithAMemory) {
  EXPECT_EQ(exchange_with("ef").plan_fingerprint, exchange_with("none").plan_fingerprint);
}

}  // namespace
}  // namespace terngrad::host_exchange_test
