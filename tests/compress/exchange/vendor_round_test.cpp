#include "compress/exchange/vendor_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "compress/route/wire_bytes.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"
#include "support/thread_device_communicator.h"

namespace terngrad::vendor_round_test {
namespace {

using ::testing::AllOf;
using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::mixed_layout;
using testing::run_ranks;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr int kNumWorkers = 5;

float rounded(float value, ElementType type) {
  if (type == ElementType::kBfloat16) return from_bfloat16(to_bfloat16(value));
  if (type == ElementType::kFloat16) return from_float16(to_float16(value));
  return value;
}

/// Rounding errors of a sum of `size` numbers up to 1: half a unit in the last place each.
double tolerance(ElementType type, int size) {
  const double unit = type == ElementType::kFloat32 ? 0x1p-24 : type == ElementType::kFloat16 ? 0x1p-11 : 0x1p-8;
  return unit * size;
}

CompressedAllReduceOptions vendor(ElementType type, OnNonfinite on_nonfinite = OnNonfinite::kStop) {
  CompressedAllReduceOptions options;
  options.vendor_type = type;
  options.on_nonfinite = on_nonfinite;
  return options;
}

/// Runs body(peers) on ranks in host memory, then on ranks with a DeviceCommunicator.
template <class Body>
void run_both(int num_workers, int size, const Body& body) {
  const auto in_host_memory = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
    body(ExchangePeers(make_worker_group(num_workers, communicator)));
  });
  const auto on_device = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
    body(ExchangePeers(worker_range(num_workers, communicator->rank(), size), communicator));
  });
  for (const auto* const errors : {&in_host_memory, &on_device}) {
    for (const auto& error : *errors) EXPECT_FALSE(error);
  }
}

TEST(VendorRound, GivesTheMeanToEveryRank) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, kNumWorkers);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    for (const int size : {1, 2, 3, 5}) {
      run_both(kNumWorkers, size, [&](const ExchangePeers& peers) {
        const WorkerGroup& group = peers.group;
        CompressedAllReduce exchange(layout, peers, vendor(type));
        Tensors mean = blank_tensors(layout);
        const auto gradients = tables(workers, group.first_local_worker, group.num_local_workers);
        for (int step = 0; step < 2; ++step) {  // the second time with used buffers
          const ExchangeReport report = exchange.exchange(gradients, mean.table, 3);
          const auto bytes = layout.num_elements() * static_cast<std::int64_t>(element_bytes(type));
          // Bytes between workers, independent of the ranks.
          EXPECT_EQ(report.gradient.sent, group.num_local_workers * all_reduce_bytes(bytes, kNumWorkers));
          EXPECT_EQ(report.gradient.received, report.gradient.sent);
          EXPECT_EQ(report.num_workers, group.num_local_workers);
          EXPECT_EQ(report.scalers.sent + report.mean.sent, 0);
          EXPECT_FALSE(report.skipped);
        }
        for (std::size_t t = 0; t < mean.values.size(); ++t) {
          for (std::size_t i = 0; i < mean.values[t].size(); ++i) {
            double sum = 0;
            double size_of_sum = 0;
            for (const Tensors& worker : workers) {
              sum += worker.values[t][i];
              size_of_sum += std::abs(worker.values[t][i]);
            }
            ASSERT_NEAR(mean.values[t][i], sum / kNumWorkers,
                        tolerance(type, size + kNumWorkers) * (size_of_sum / kNumWorkers + 1e-6))
                << size << " " << element_type_name(type) << " " << t << " " << i;
          }
        }
      });
    }
  }
}

TEST(VendorRound, DecodesWhatAWorkerGives) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 2);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    CompressedAllReduce exchange(layout, make_worker_group(2, make_self_communicator()), vendor(type));
    std::vector<float> out(7);
    EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);  // before the first step
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, 0, 2), mean.table, 0);
    EXPECT_EQ(exchange.decode_local(1, 1, out), 0);
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], rounded(workers[1].values[1][i], type));
    EXPECT_THROW(exchange.decode_local(2, 1, out), InvalidArgument);
    EXPECT_THROW(exchange.decode_local(0, 99, out), InvalidArgument);
    EXPECT_THROW(exchange.decode_local(0, 0, out), InvalidArgument);
  }
}

TEST(VendorRound, FindsWhatIsNotFiniteInTheMean) {
  const Layout layout = mixed_layout();
  for (const bool skips : {false, true}) {
    std::mutex mutex;
    int met = 0;
    run_both(2, 2, [&](const ExchangePeers& peers) {
      const int rank = peers.group.first_local_worker;
      std::vector<Tensors> workers = worker_gradients(layout, 2);
      if (rank == 1) workers[1].values[3].back() = std::numeric_limits<float>::quiet_NaN();
      CompressedAllReduce exchange(layout, peers,
                                   vendor(ElementType::kFloat32, skips ? OnNonfinite::kSkip : OnNonfinite::kStop));
      Tensors mean = blank_tensors(layout);
      std::string message;
      try {
        const ExchangeReport report = exchange.exchange(tables(workers, rank, 1), mean.table, 12);
        EXPECT_TRUE(skips && report.skipped);
        message = report.nonfinite;
        std::vector<float> out(7);
        EXPECT_THROW(exchange.decode_local(0, 1, out), InvalidArgument);
      } catch (const NonFiniteError& error) {
        EXPECT_FALSE(skips);
        message = error.what();
      }
      const std::lock_guard lock(mutex);
      EXPECT_THAT(message, AllOf(HasSubstr("step 12"), HasSubstr("fc/weights")));
      ++met;
    });
    EXPECT_EQ(met, 4);
  }
}

TEST(VendorRound, ScalesBeforeItRounds) {
  // The sum of the gradients overflows float16, their mean does not.
  Layout layout;
  layout.add("w", {1});
  run_both(2, 2, [&](const ExchangePeers& peers) {
    std::vector<Tensors> workers = worker_gradients(layout, 2);
    for (Tensors& worker : workers) worker.values[0][0] = 60000;
    CompressedAllReduce exchange(layout, peers, vendor(ElementType::kFloat16));
    Tensors mean = blank_tensors(layout);
    exchange.exchange(tables(workers, peers.group.first_local_worker, 1), mean.table, 0);
    EXPECT_NEAR(mean.values[0][0], 60000, 32);
  });
}

TEST(VendorRound, RefusesToCountAsZeroServersAndMemories) {
  const auto alone = make_worker_group(1, make_self_communicator());
  EXPECT_THROW(CompressedAllReduce(mixed_layout(), alone, vendor(ElementType::kFloat32, OnNonfinite::kZero)),
               InvalidArgument);
  const auto meeting = std::make_shared<testing::Meeting>(2);
  const auto served = make_worker_group(1, std::make_shared<testing::ThreadCommunicator>(meeting, 0), 1);
  EXPECT_THROW(CompressedAllReduce(mixed_layout(), served, vendor(ElementType::kFloat32)), InvalidArgument);
  EXPECT_THROW(CompressedAllReduce(mixed_layout(), alone, vendor(ElementType::kFloat32), parse_memory("momentum")),
               InvalidArgument);
}

TEST(VendorRound, AddsNarrowGradientsOfOneType) {
  Layout layout;
  layout.add("w", {3});
  const std::vector<std::uint16_t> halves = {to_float16(1.5f), to_float16(-2.0f), to_float16(0.25f)};
  const std::vector<std::uint16_t> brains = {to_bfloat16(1.5f), to_bfloat16(-2.0f), to_bfloat16(0.25f)};
  const auto table_of = [&](const std::vector<std::uint16_t>& values, ElementType type) {
    return TensorTable(layout, type, const_cast<std::uint16_t*>(values.data()));
  };
  CompressedAllReduce exchange(layout, make_worker_group(2, make_self_communicator()), vendor(ElementType::kFloat32));
  const TensorTable half = table_of(halves, ElementType::kFloat16);
  const TensorTable brain = table_of(brains, ElementType::kBfloat16);
  Tensors mean = blank_tensors(layout);
  for (const TensorTable& table : {half, brain}) {
    exchange.exchange(std::vector{table, table}, mean.table, 0);
    EXPECT_EQ(mean.values[0], (std::vector<float>{1.5f, -2.0f, 0.25f}));
  }
  EXPECT_THROW(exchange.exchange(std::vector{half, brain}, mean.table, 1), InvalidArgument);
}

TEST(VendorRound, ExchangesInPartsAndNothing) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 2);
  CompressedAllReduce exchange(layout, make_worker_group(2, make_self_communicator()), vendor(ElementType::kFloat32));
  Tensors whole = blank_tensors(layout);
  Tensors mean = blank_tensors(layout);
  const ExchangeReport of_whole = exchange.exchange(tables(workers, 0, 2), whole.table, 0);
  // Tensor 2 is empty.
  const ExchangeReport of_parts =
      testing::exchange_in({{6, 5}, {2}, {4, 3, 1, 0}}, exchange, tables(workers, 0, 2), mean.table, 1);
  EXPECT_EQ(mean.values, whole.values);
  EXPECT_EQ(of_parts.sent_bytes(), of_whole.sent_bytes());
}

}  // namespace
}  // namespace terngrad::vendor_round_test
