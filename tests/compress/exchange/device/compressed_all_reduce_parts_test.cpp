// Exchanges in parts on a GPU, in one stream and in a branch of it, compared with the CPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/comm/nccl/nccl_communicator.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stream_fork.h"
#include "support/cuda_device.h"
#include "support/device_exchange.h"
#include "support/device_ranks.h"
#include "support/exchanges.h"
#include "support/recorded_nccl.h"
#include "support/sanitized.h"

namespace terngrad::device_compressed_all_reduce_parts_test {
namespace {

using testing::bits_of;
using testing::blank_tensors;
using testing::DeviceTensors;
using ::testing::ElementsAre;
using testing::exchange_in;
using ::testing::HasSubstr;
using testing::kDownlinkCodecs;
using testing::mixed_layout;
using testing::options_of;
using testing::options_text;
using testing::same_bits;
using testing::tables;
using testing::Tensors;
using testing::to_host;
using testing::worker_gradients;
class CudaCompressedAllReduceParts : public testing::CudaTest {};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// From one tensor per bucket to one bucket, in several orders. Tensor 2 is empty.
const Buckets kBuckets[] = {
    {{6}, {5}, {4}, {2, 3}, {1}, {0}}, {{5, 6}, {2, 3, 4}, {0, 1}}, {{0, 3, 6}, {1, 2, 4, 5}}, {{0, 1, 2, 3, 4, 5, 6}}};

/// A rank's exchange in buckets. Gradients arrive bucket by bucket, as from a backward pass, and are overwritten after
/// a step.
struct InBuckets {
  Layout layout;
  Buckets buckets;
  Stream stream{Device::cuda()};
  std::shared_ptr<StreamFork> fork;
  WorkerRange workers;
  CompressedAllReduce exchange;
  std::vector<DeviceTensors> sources, gradients;
  std::vector<TensorTable> tables;
  DeviceTensors mean, result;

  InBuckets(const Layout& shapes, const std::vector<Tensors>& of_all, const CompressedAllReduceOptions& options,
            Buckets parts, bool overlaps,
            const std::shared_ptr<DeviceCommunicator>& communicator = make_self_device_communicator())
      : layout(shapes),
        buckets(std::move(parts)),
        fork(overlaps ? std::make_shared<StreamFork>(stream, 1) : nullptr),
        workers(worker_range(static_cast<int>(of_all.size()), communicator->rank(), communicator->size())),
        exchange(layout, {workers, communicator}, options, overlaps ? fork->branch(0) : stream),
        mean(layout, blank_tensors(layout), stream),
        result(layout, blank_tensors(layout), stream) {
    for (int w = 0; w < workers.num_local_workers; ++w) {
      const Tensors& own = of_all[static_cast<std::size_t>(workers.first_local_worker + w)];
      sources.emplace_back(layout, own, stream);
      gradients.emplace_back(layout, blank_tensors(layout), stream);
    }
    for (const DeviceTensors& worker : gradients) tables.push_back(worker.table);
  }

  void fork_begins() const {
    if (fork != nullptr) fork->begin();
  }
  void join() const {
    if (fork != nullptr) fork->join();
  }
  void begin(const DeviceStep& step) {
    fork_begins();
    exchange.begin(step);
  }
  void submit_bucket(std::size_t bucket) {
    for (const int segment : buckets[bucket]) bring(static_cast<std::size_t>(segment));
    fork_begins();
    exchange.exchange(buckets[bucket], tables, mean.table);
  }
  void submit(const DeviceStep& step) {
    begin(step);
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) submit_bucket(bucket);
    exchange.finish();
    join();
    for (std::size_t t = 0; t < mean.buffers.size(); ++t) {
      copy<float>(mean.buffers[t].span(), result.buffers[t].span(), stream);
      for (DeviceTensors& worker : gradients) fill_zero(worker.buffers[t].span(), stream);
      fill_zero(mean.buffers[t].span(), stream);
    }
  }
  void bring(std::size_t segment) {
    for (std::size_t w = 0; w < gradients.size(); ++w) {
      copy<float>(sources[w].buffers[segment].span(), gradients[w].buffers[segment].span(), stream);
    }
  }
  Tensors read() { return result.read(layout, stream); }
  std::uint32_t skip() { return to_host<std::uint32_t>({exchange.skip(), 1}, stream)[0]; }
};

/// All valid combinations of algorithm, downlink codec, sharing and scope with buckets.
std::vector<CompressedAllReduceOptions> all_options() {
  std::vector<CompressedAllReduceOptions> all;
  for (const ExchangeAlgorithm algorithm :
       {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce, ExchangeAlgorithm::kIntegerSum}) {
    for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
      CompressedAllReduceOptions options = options_of(algorithm, downlink_codec);
      options.codecs.codec = "ternary:clip_factor=2.5";
      all.push_back(options);
    }
  }
  for (const ScalerSharing sharing : {ScalerSharing::kMean, ScalerSharing::kNone}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    TernaryOptions ternary;
    ternary.sharing = sharing;
    ternary.scope = ScalerScope::kBlock;
    ternary.block_elements = 4096;
    options.codecs.codec = ternary_spec(ternary);
    all.push_back(options);
  }
  return all;
}

// Contracts B1 and B2.
TEST_F(CudaCompressedAllReduceParts, NeedsNoHostForCodecsWithKernels) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 1);
  for (const char* codec : {"fp32", "ternary", "qsgd", "fp8"}) {
    CompressedAllReduceOptions options = testing::options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    InBuckets cuda(layout, workers, options, whole_bucket(layout), /*overlaps=*/false);
    EXPECT_TRUE(cuda.exchange.codecs_through_host(cuda.buckets).empty()) << codec;
  }
}

TEST_F(CudaCompressedAllReduceParts, HasTheCpusBitsForAnyBuckets) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  for (const CompressedAllReduceOptions& options : all_options()) {
    CompressedAllReduce cpu = testing::local_exchange(layout, 3, options);
    Tensors expected = blank_tensors(layout);
    cpu.exchange(tables(workers, 0, 3), expected.table, 5);
    for (const Buckets& buckets : kBuckets) {
      for (const bool overlaps : {false, true}) {
        if (testing::kIsSanitized && !overlaps && options.downlink_codec != DownlinkCodec::kFloat32) continue;
        const std::string what = options_text(options) + ", buckets " + std::to_string(buckets.size());
        InBuckets cuda(layout, workers, options, buckets, overlaps);
        // The second time without uploads of tables, for which the host waits.
        for (int time = 0; time < (overlaps ? 2 : 1); ++time) cuda.submit({.step = 5});
        ASSERT_TRUE(same_bits(expected.values, cuda.read())) << what;
        EXPECT_EQ(cuda.exchange.plan().fingerprint(), cpu.plan().fingerprint());
        EXPECT_EQ(cuda.exchange.report(5).nonfinite, "");
        if (!overlaps) continue;
        for (int segment = 0; segment < layout.num_segments(); ++segment) {
          std::vector<float> sent(static_cast<std::size_t>(layout.segment(segment).num_elements));
          std::vector<float> sent_by_cpu(sent.size());
          EXPECT_EQ(cuda.exchange.decode_local(1, segment, sent), cpu.decode_local(1, segment, sent_by_cpu));
          EXPECT_EQ(sent, sent_by_cpu) << what << ", tensor " << segment;
        }
      }
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, BytesDependOnTheBucketsAlone) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 3);
  for (const ExchangeAlgorithm algorithm : testing::kAlgorithms) {
    testing::DeviceExchange whole(layout, workers, options_of(algorithm));
    const ExchangeBytes of_whole = whole.exchange.exchange(whole.tables, whole.mean.table, 5);
    for (const Buckets& buckets : kBuckets) {
      InBuckets beside(layout, workers, options_of(algorithm), buckets, true);
      InBuckets after(layout, workers, options_of(algorithm), buckets, false);
      beside.submit({.step = 5});
      after.submit({.step = 5});
      EXPECT_EQ(beside.exchange.bytes().sent_bytes(), after.exchange.bytes().sent_bytes());
      EXPECT_EQ(beside.exchange.bytes().received_bytes(), after.exchange.bytes().received_bytes());
      EXPECT_EQ(beside.exchange.bytes().scalers.sent, of_whole.scalers.sent);
      if (buckets.size() > 1 && algorithm != ExchangeAlgorithm::kAllGather) continue;
      EXPECT_EQ(beside.exchange.bytes().sent_bytes(), of_whole.sent_bytes()) << word_of(algorithm);
      EXPECT_EQ(beside.exchange.bytes().received_bytes(), of_whole.received_bytes());
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, HasTheSameBitsAndBytesOnAnyNumberOfRanks) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 4);
  for (const CompressedAllReduceOptions& options : all_options()) {
    InBuckets alone(layout, workers, options, kBuckets[1], false);
    alone.submit({.step = 9});
    const Tensors expected = alone.read();
    const ExchangeBytes all = alone.exchange.bytes();
    for (const int size : {2, 3}) {
      std::vector<ExchangeReport> reports(static_cast<std::size_t>(size));
      const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
        InBuckets rank(layout, workers, options, kBuckets[1], true, communicator);
        // Twice: the second step starts from the state that the first one left.
        for (const std::uint64_t step : {8u, 9u}) rank.submit({.step = step});
        EXPECT_TRUE(same_bits(expected.values, rank.read())) << options_text(options) << ", ranks " << size;
        reports[static_cast<std::size_t>(communicator->rank())] = rank.exchange.report(9);
      });
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
      ExchangeReport sum;
      for (const ExchangeReport& report : reports) sum += report;
      EXPECT_EQ(sum.scalers.sent, all.scalers.sent);
      EXPECT_EQ(sum.gradient.sent, all.gradient.sent) << options_text(options);
      EXPECT_EQ(sum.gradient.received, all.gradient.received);
    }
  }
}

/// Gradients of three workers with non-finite elements, or an overflowing mean, in several buckets.
std::vector<std::vector<Tensors>> damaged_gradients(const Layout& layout) {
  std::vector<Tensors> spoiled = worker_gradients(layout, 3);
  spoiled[2].values[0].back() = kInfinity;
  spoiled[1].values[3].back() = -kInfinity;
  spoiled[0].values[5].back() = kInfinity;
  std::vector<Tensors> overflowing = worker_gradients(layout, 3);
  for (Tensors& worker : overflowing) worker.values[5].back() = worker.values[6].back() = 3e38f;
  std::vector<std::vector<Tensors>> all;
  all.push_back(std::move(spoiled));
  all.push_back(std::move(overflowing));
  return all;
}

/// The report of a step; contains the message if it throws NonFiniteError.
ExchangeReport told(const std::function<ExchangeReport()>& report) {
  try {
    return report();
  } catch (const NonFiniteError& error) {
    ExchangeReport stopped;
    stopped.nonfinite = std::string("thrown: ") + error.what();
    return stopped;
  }
}

TEST_F(CudaCompressedAllReduceParts, AStepIsDroppedAsAWholeWhicheverBucketWasNotFinite) {
  const Layout layout = mixed_layout();
  for (const std::vector<Tensors>& workers : damaged_gradients(layout)) {
    for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip, OnNonfinite::kZero}) {
      CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kScatterReduce);
      options.on_nonfinite = policy;
      CompressedAllReduce cpu = testing::local_exchange(layout, 3, options);
      Tensors expected = blank_tensors(layout);
      const ExchangeReport on_cpu = told([&] { return cpu.exchange(tables(workers, 0, 3), expected.table, 4); });
      ASSERT_FALSE(on_cpu.nonfinite.empty());
      for (const Buckets& buckets : kBuckets) {
        InBuckets cuda(layout, workers, options, buckets, true);
        cuda.submit({.step = 4});
        const ExchangeReport found = told([&] { return cuda.exchange.report(4); });
        EXPECT_EQ(found.nonfinite, on_cpu.nonfinite);
        EXPECT_EQ(found.skipped, on_cpu.skipped);
        EXPECT_EQ(cuda.skip(), policy == OnNonfinite::kZero ? 0u : 1u);
        if (policy != OnNonfinite::kZero) continue;
        EXPECT_TRUE(same_bits(expected.values, cuda.read()));
      }
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, AStopIsKeptByLaterStepsAndASkipIsNot) {
  const Layout layout = mixed_layout();
  for (const OnNonfinite policy : {OnNonfinite::kStop, OnNonfinite::kSkip}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.on_nonfinite = policy;
    std::vector<Tensors> workers = worker_gradients(layout, 3);
    workers[1].values[0][5] = kInfinity;  // in the last bucket; earlier buckets are finite
    InBuckets cuda(layout, workers, options, kBuckets[0], true);
    cuda.submit({.step = 4});
    const std::vector<Tensors> finite = worker_gradients(layout, 3);
    for (std::size_t w = 0; w < 3; ++w) cuda.sources[w].write(finite[w], cuda.stream);
    cuda.submit({.step = 5});
    EXPECT_EQ(cuda.skip(), policy == OnNonfinite::kStop ? 1u : 0u);
    if (policy == OnNonfinite::kSkip) {
      EXPECT_FALSE(cuda.exchange.report(5).skipped);
      continue;
    }
    EXPECT_THAT(told([&] { return cuda.exchange.report(5); }).nonfinite, HasSubstr("'conv/weights' of worker 1"));
    cuda.exchange.forget_nonfinite();
    cuda.submit({.step = 6});
    EXPECT_EQ(cuda.skip(), 0u);
    EXPECT_NO_THROW(cuda.exchange.report(6));
  }
}

/// Expects that steps replayed from a graph, with the step number on the device, give the CPU's means.
void expect_the_cpus_means_from_a_graph(const CompressedAllReduceOptions& options, bool overlaps) {
  const Layout layout = mixed_layout();
  CompressedAllReduce cpu = testing::local_exchange(layout, 4, options);
  InBuckets cuda(layout, worker_gradients(layout, 4), options, kBuckets[1], overlaps);
  Buffer<std::uint64_t> step = testing::to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, cuda.stream);
  const auto submit = [&] { cuda.submit({0, step.data()}); };
  submit();
  // Capture fails if the exchange allocates, copies from the host or waits.
  const CapturedGraph graph(cuda.stream, submit);
  for (const std::uint64_t now : {7u, 8u, 9u}) {
    const std::vector<Tensors> gradients = worker_gradients(layout, 4, now);
    for (std::size_t w = 0; w < 4; ++w) cuda.sources[w].write(gradients[w], cuda.stream);
    copy<std::uint64_t>(std::vector<std::uint64_t>{now}, step.span(), cuda.stream);
    graph.launch(cuda.stream);
    cuda.stream.synchronize();
    Tensors expected = blank_tensors(layout);
    cpu.exchange(tables(gradients, 0, 4), expected.table, now);
    EXPECT_EQ(cuda.exchange.report(now).nonfinite, "");
    ASSERT_TRUE(same_bits(expected.values, cuda.read())) << options.codecs.codec << ", " << options_text(options);
  }
}

TEST_F(CudaCompressedAllReduceParts, RunsFromAGraphWithTheStepOnTheDevice) {
  for (const bool overlaps : {false, true}) {
    for (const DownlinkCodec codec : {DownlinkCodec::kFloat32, DownlinkCodec::kTernary}) {
      expect_the_cpus_means_from_a_graph(options_of(ExchangeAlgorithm::kScatterReduce, codec), overlaps);
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, SparseCodecsRunFromAGraph) {
  for (const char* spec : {"topk:density=0.05", "topk:scope=block,block=256,density=0.1", "randomk:density=0.1"}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kScatterReduce);
    options.codecs.codec = spec;
    expect_the_cpus_means_from_a_graph(options, /*overlaps=*/true);
  }
}

TEST_F(CudaCompressedAllReduceParts, RefusesASparseDownlink) {
  const Layout layout = mixed_layout();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kSparse);
  options.codecs.codec = "topk";
  EXPECT_THAT([&] { InBuckets(layout, worker_gradients(layout, 2), options, kBuckets[0], false); },
              ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("downlink_codec sparse: has no kernels for GPUs")));
}

TEST_F(CudaCompressedAllReduceParts, ContinuesAfterAStepThatWasGivenUp) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, 2);
  InBuckets cuda(layout, workers, options_of(ExchangeAlgorithm::kAuto), kBuckets[0], true);
  cuda.submit({.step = 1});
  for (const std::size_t submitted : {0u, 1u, 6u}) {
    // Also during capture: a branch that does not join would invalidate it.
    for (const bool captures : {false, true}) {
      const auto give_up = [&] {
        cuda.begin({.step = 2});
        for (std::size_t bucket = 0; bucket < submitted; ++bucket) cuda.submit_bucket(bucket);
        cuda.join();
        throw DataError("the step is lost");
      };
      if (captures) {
        EXPECT_THROW(CapturedGraph(cuda.stream, give_up), DataError);
      } else {
        EXPECT_THROW(give_up(), DataError);
      }
    }
  }
  cuda.submit({.step = 3});
  CompressedAllReduce cpu = testing::local_exchange(layout, 2, options_of(ExchangeAlgorithm::kAuto));
  Tensors expected = blank_tensors(layout);
  cpu.exchange(tables(workers, 0, 2), expected.table, 3);
  EXPECT_TRUE(same_bits(expected.values, cuda.read()));
}

/// Two ternary tensors, of two chunks and of one, and one fp32 tensor.
Layout four_chunks() {
  Layout layout;
  layout.add("a", {4096 + 64});
  layout.add("b", {160});
  layout.add("plain", {20});
  return layout;
}

/// NCCL calls of rank 1 of 3 (one worker each) in a step, without addresses but with streams.
std::vector<std::string> nccl_calls(ExchangeAlgorithm algorithm, const Buckets& buckets, bool overlaps) {
  const Layout layout = four_chunks();
  testing::RecordedNccl nccl;
  const auto communicator = std::make_shared<NcclCommunicator>(NcclUniqueId(), 1, 3, Device::cuda(), nccl);
  CompressedAllReduceOptions options;
  options.algorithm = algorithm;
  options.codecs.rules = {{"plain", "fp32"}};
  InBuckets rank(layout, worker_gradients(layout, 3), options, buckets, overlaps, communicator);
  nccl.stream = overlaps ? rank.fork->branch(0).native() : rank.stream.native();
  rank.submit({.step = 5});
  rank.stream.synchronize();
  nccl.calls.clear();
  rank.submit({.step = 6});
  rank.stream.synchronize();
  std::vector<std::string> calls;
  for (const std::string& call : std::exchange(nccl.calls, {})) {
    calls.push_back(
        std::regex_replace(call, std::regex(" \\+-?[0-9]+( in(to| place)( \\+-?[0-9]+)?)?| uint8| as 1 stream"), ""));
  }
  return calls;
}

TEST_F(CudaCompressedAllReduceParts, AsksNcclForBucketAfterBucketInTheBranch) {
  for (const bool overlaps : {true, false}) {
    EXPECT_THAT(nccl_calls(ExchangeAlgorithm::kAllGather, {{1, 2}, {0}}, overlaps),
                ElementsAre("group_start", "all_gather 4", "all_gather 4", "group_end",  // scalers of b, of plain
                            "group_start", "all_gather " + std::to_string(48 + 80), "group_end",  //
                            "group_start", "all_gather 4", "group_end",                           // scaler of a
                            "group_start", "all_gather 1040", "group_end"));
    // The bucket of "plain" has nothing to sum.
    EXPECT_THAT(nccl_calls(ExchangeAlgorithm::kIntegerSum, {{2}, {0, 1}}, overlaps),
                ElementsAre("group_start", "all_gather 4", "group_end",   //
                            "group_start", "all_gather 80", "group_end",  //
                            "group_start", "all_gather 8", "group_end",   //
                            "group_start", "all_reduce " + std::to_string(200 + 8) + " uint64 sum", "group_end"));
  }
}

constexpr int kWorkers = 4;
constexpr std::uint64_t kSteps = 3;

/// Parts of a step: they differ between steps, in any order; the last step leaves out some tensors.
Buckets parts_of(std::uint64_t step) {
  if (step == 0) return {{6, 5}, {4, 3}, {2, 1, 0}};
  if (step == 1) return {{0, 3}, {6, 1, 5}, {2}, {4}};
  return {{3}, {1, 0}};
}

/// Means of all steps, and the final memory state of each local worker and tensor.
struct Result {
  std::vector<Tensors> means;
  std::vector<std::vector<float>> states;
};

Result on_cpu(const CompressedAllReduceOptions& options, const MemoryOptions& memory) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  CompressedAllReduce exchange(layout, make_worker_group(kWorkers, make_self_communicator()), options, memory);
  Result result;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    result.means.push_back(blank_tensors(layout));
    exchange_in(parts_of(step), exchange, tables(gradients, 0, kWorkers), result.means.back().table, step);
  }
  for (int worker = 0; memory.kind != MemoryKind::kNone && worker < kWorkers; ++worker) {
    const std::span<const float> state = exchange.memory()->state(worker);
    result.states.emplace_back(state.begin(), state.end());
  }
  return result;
}

Result on_gpu(const CompressedAllReduceOptions& options, const MemoryOptions& memory,
              const std::shared_ptr<DeviceCommunicator>& communicator) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> gradients = worker_gradients(layout, kWorkers);
  const WorkerRange workers = worker_range(kWorkers, communicator->rank(), communicator->size());
  const Stream owned(Device::cuda());
  Stream stream = Stream::borrow(owned.device(), owned.native());
  CompressedAllReduce exchange(layout, {workers, communicator}, options, stream, memory);
  Result result;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    std::vector<DeviceTensors> local;
    for (int w = 0; w < workers.num_local_workers; ++w) {
      local.emplace_back(layout, gradients[static_cast<std::size_t>(workers.first_local_worker + w)], stream);
    }
    DeviceTensors mean(layout, blank_tensors(layout), stream);
    std::vector<TensorTable> local_tables;
    for (const DeviceTensors& worker : local) local_tables.push_back(worker.table);
    EXPECT_GT(exchange_in(parts_of(step), exchange, local_tables, mean.table, step).sent_bytes(), 0);
    EXPECT_FALSE(exchange.report(step).skipped);
    result.means.push_back(mean.read(layout, stream));
  }
  for (int worker = 0; memory.kind != MemoryKind::kNone && worker < workers.num_local_workers; ++worker) {
    result.states.push_back(to_host<float>(exchange.memory()->state(worker), stream));
  }
  return result;
}

// Contracts B1 and B2.
TEST_F(CudaCompressedAllReduceParts, HaveTheCpusBitsWhateverThePartsAreInEachStep) {
  const std::pair<const char*, const char*> cases[] = {{"ternary:clip_factor=2.5", "ef"},
                                                       {"qsgd:bits=4,sharing=max", "none"},
                                                       {"sign", "ef:decay=0.5"},
                                                       {"fp32", "none"}};
  for (const auto& [codec, memory] : cases) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    options.codecs.codec = codec;
    const Result expected = on_cpu(options, parse_memory(memory));
    for (const int size : {1, 2}) {
      std::vector<Result> results(static_cast<std::size_t>(size));
      const auto errors = testing::run_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
        results[static_cast<std::size_t>(communicator->rank())] = on_gpu(options, parse_memory(memory), communicator);
      });
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
      std::vector<std::vector<float>> states;
      for (const Result& of_rank : results) {
        for (std::uint64_t step = 0; step < kSteps; ++step) {
          EXPECT_TRUE(same_bits(expected.means[step].values, of_rank.means[step]))
              << codec << ", step " << step << ", " << size << " ranks";
        }
        states.insert(states.end(), of_rank.states.begin(), of_rank.states.end());
      }
      EXPECT_EQ(states, expected.states) << codec << ", " << size << " ranks";
    }
  }
}

TEST_F(CudaCompressedAllReduceParts, WhatIsNotFiniteDropsTheStep) {
  const Layout layout = mixed_layout();
  std::vector<Tensors> gradients = worker_gradients(layout, 1);
  gradients[0].values[1][3] = std::numeric_limits<float>::infinity();
  CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
  options.codecs.codec = "ternary:sharing=none";
  options.on_nonfinite = OnNonfinite::kSkip;
  Stream stream(Device::cuda());
  CompressedAllReduce exchange(layout, {worker_range(1, 0, 1), make_self_device_communicator()}, options, stream,
                               parse_memory("ef"));
  const DeviceTensors local(layout, gradients[0], stream);
  const DeviceTensors mean(layout, blank_tensors(layout), stream);
  exchange_in(parts_of(0), exchange, std::vector{local.table}, mean.table, 0);
  EXPECT_EQ(to_host<std::uint32_t>({exchange.skip(), 1}, stream)[0], 1u);
  const ExchangeReport report = exchange.report(0);
  EXPECT_TRUE(report.skipped);
  EXPECT_NE(report.nonfinite.find("'conv/biases' of worker 0"), std::string::npos) << report.nonfinite;
  for (const float value : to_host<float>(exchange.memory()->state(0), stream)) ASSERT_EQ(value, 0);
}

}  // namespace
}  // namespace terngrad::device_compressed_all_reduce_parts_test
