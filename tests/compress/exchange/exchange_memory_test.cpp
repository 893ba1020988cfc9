#include "compress/exchange/exchange_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "compress/exchange/bucketed_all_reduce.h"
#include "compress/exchange/exchange_bytes.h"
#include "support/exchanges.h"
#include "support/heap.h"
#include "support/thread_communicator.h"

namespace terngrad::exchange_memory_test {
namespace {

using testing::heap_bytes;
using testing::options_of;
using testing::Tensors;
using testing::worker_gradients;

constexpr int kWorkers = 4;

/// Calls body(communicator) on that many ranks, none of which may throw.
template <class Body>
void on_ranks(int size, const Body& body) {
  for (const std::exception_ptr& failure : testing::run_ranks(size, body)) EXPECT_EQ(failure, nullptr);
}

/// Large beside headers and scalers.
Layout large_layout() {
  Layout layout;
  layout.add("conv/weights", {300, 500});
  layout.add("fc/weights", {1000, 700});
  layout.add("plain", {40000});
  layout.add("half", {20000});
  return layout;
}

WorkerGroup alone(int num_workers = kWorkers) { return make_worker_group(num_workers, make_self_communicator()); }

/// What an exchange allocates, and in three steps.
std::int64_t allocated(const Layout& layout, const CompressedAllReduceOptions& options, const Buckets& buckets,
                       const std::vector<Tensors>& gradients) {
  Tensors mean = testing::gaussian_tensors(layout, 1, 1.0);
  const std::vector<TensorTable> tables = testing::tables(gradients, 0, kWorkers);
  const std::int64_t before = *heap_bytes();
  BucketedAllReduce exchange(layout, alone(), options, buckets);
  for (std::uint64_t step = 0; step < 3; ++step) exchange.exchange(tables, mean.table, step);
  return *heap_bytes() - before;
}

TEST(ExchangeMemory, IsWhatAnExchangeAllocates) {
  if (!heap_bytes()) GTEST_SKIP() << "the heap's size is not known here";
  const Layout layout = large_layout();
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
    for (const char* codec : {"ternary", "fp32", "bf16", "powersgd:rank=32", "powersgd:rank=32,factors=bf16"}) {
      CompressedAllReduceOptions options = options_of(algorithm);
      options.codecs.codec = codec;
      if (algorithm == ExchangeAlgorithm::kIntegerSum && std::string(codec) != "ternary") continue;
      for (const Buckets& buckets : {whole_bucket(layout), Buckets{{3, 2}, {1}, {0}}}) {
        const auto expected = static_cast<double>(exchange_memory(layout, options, buckets, alone()));
        const auto found = static_cast<double>(allocated(layout, options, buckets, gradients));
        // Beside messages there are tables of what they hold. Storage for parcels grows by doubling, so that up to half
        // of it may be allocated and never filled.
        const std::string what = to_string(algorithm) + " " + codec + " in " + std::to_string(buckets.size());
        EXPECT_GT(found, 0.9 * expected) << what;
        EXPECT_LT(found, 1.5 * expected + 100e3) << what;
      }
    }
  }
}

TEST(ExchangeMemory, OfSeveralProcessesIsWrittenSentAndReceived) {
  const Layout layout = large_layout();
  const CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  const CodecPlan plan(layout, with_workers(options.codecs, 2));
  const std::int64_t message = gradient_message_bytes(plan, whole_segments(layout), PayloadForm::kNatural);
  on_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup workers = make_worker_group(2, communicator);
    // What is encoded has no headers yet.
    EXPECT_NEAR(static_cast<double>(exchange_memory(layout, options, whole_bucket(layout), workers)),
                static_cast<double>((1 + 1 + 2) * message), 1000);
  });
}

TEST(ExchangeMemory, SumsTakeThePlaceOfMessagesBetweenProcesses) {
  const Layout layout = large_layout();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  options.codecs.codec = "fp32";
  options.codecs.rules.clear();
  const CodecPlan plan(layout, with_workers(options.codecs, 8));
  const std::int64_t message = gradient_message_bytes(plan, whole_segments(layout), PayloadForm::kNatural);
  on_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup workers = make_worker_group(8, communicator);
    // Four gradients encoded, one sum sent and two received.
    EXPECT_NEAR(static_cast<double>(exchange_memory(layout, options, whole_bucket(layout), workers)),
                static_cast<double>((4 + 1 + 2) * message), 3000);
  });
}

TEST(ExchangeMemory, AServerHoldsItsShardOfAllMessages) {
  const Layout layout = large_layout();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
  options.owners = ShardOwners::kServers;
  const CodecPlan plan(layout, with_workers(options.codecs, 2));
  const std::int64_t message = gradient_message_bytes(plan, whole_segments(layout), PayloadForm::kNatural);
  std::vector<std::int64_t> bytes(3);
  on_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
    const WorkerGroup workers = make_worker_group(2, communicator, 1);
    bytes[static_cast<std::size_t>(communicator->rank())] =
        exchange_memory(layout, options, whole_bucket(layout), workers);
  });
  // A worker encodes and sends its own, and gets the mean in fp32; the server gets both and writes and sends the mean.
  const std::int64_t mean = bytes[0] - 2 * message;
  EXPECT_EQ(bytes[1], bytes[0]);
  EXPECT_NEAR(static_cast<double>(mean), static_cast<double>(4 * layout.num_elements()), 1000);
  EXPECT_NEAR(static_cast<double>(bytes[2]), static_cast<double>(std::max(2 * message, mean) + 2 * mean), 3000);
}

}  // namespace
}  // namespace terngrad::exchange_memory_test
