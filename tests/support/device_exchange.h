// An exchange on a GPU, and its comparison with the same exchange on the CPU, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/stream_fork.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"

namespace terngrad::testing {

inline CompressedAllReduceOptions options_with(const TernaryOptions& ternary,
                                               DownlinkCodec downlink_codec = DownlinkCodec::kFloat32,
                                               ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAuto) {
  CompressedAllReduceOptions options = options_of(algorithm, downlink_codec);
  options.codecs.codec = ternary_spec(ternary);
  return options;
}

/// How a rank with a GPU exchanges.
struct DeviceSetup {
  Buckets buckets = {};   // parts of a step, in order; empty: the whole gradient by one call, which waits
  bool overlaps = false;  // in a branch of the gradients' stream
  const char* memory = "none";
  std::shared_ptr<DeviceCommunicator> communicator = make_self_device_communicator();
  std::shared_ptr<const Codec> codec = nullptr;  // of all tensors, in place of those of the options
};

inline CodecPlan plan_of(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options,
                         const std::shared_ptr<const Codec>& codec) {
  if (codec != nullptr) return CodecPlan::with_codec(layout, codec);
  return CodecPlan(layout, with_workers(options.codecs, num_workers));
}

/// The exchange of one rank on a GPU. As in a backward pass, gradients arrive part by part; after a step they and the
/// mean are overwritten.
class DeviceExchange {
 public:
  DeviceExchange(const Layout& shapes, int num_workers, const CompressedAllReduceOptions& options,
                 const DeviceSetup& setup = {})
      : layout(shapes),
        buckets(setup.buckets),
        fork(setup.overlaps ? std::make_shared<StreamFork>(stream, 1) : nullptr),
        workers(worker_range(num_workers, setup.communicator->rank(), setup.communicator->size())),
        exchange(layout, plan_of(layout, num_workers, options, setup.codec), {workers, setup.communicator}, options,
                 fork == nullptr ? stream : fork->branch(0), parse_memory(setup.memory)),
        mean_(layout, blank_tensors(layout), stream),
        result_(layout, blank_tensors(layout), stream) {
    for (int w = 0; w < workers.num_local_workers; ++w) {
      sources_.emplace_back(layout, blank_tensors(layout), stream);
      gradients_.emplace_back(layout, blank_tensors(layout), stream);
    }
    for (const DeviceTensors& worker : gradients_) tables_.push_back(worker.table);
  }

  /// Sets the gradients of the next steps. @param of_all  [all workers], of which this rank takes its own
  void write(const std::vector<Tensors>& of_all) {
    for (std::size_t w = 0; w < sources_.size(); ++w) {
      sources_[w].write(of_all[static_cast<std::size_t>(workers.first_local_worker) + w], stream);
    }
  }
  void begin(const DeviceStep& step) {
    if (fork != nullptr) fork->begin();
    exchange.begin(step);
  }
  void submit_part(const std::vector<int>& segments) {
    bring(segments);
    if (fork != nullptr) fork->begin();
    exchange.exchange(segments, tables_, mean_.table);
  }
  void join() const {
    if (fork != nullptr) fork->join();
  }
  /// Submits a step in parts, without waiting.
  void submit(const DeviceStep& step) {
    begin(step);
    for (const std::vector<int>& segments : buckets.empty() ? whole_bucket(layout) : buckets) submit_part(segments);
    exchange.finish();
    join();
    take_result();
  }
  ExchangeReport run(std::uint64_t step) {
    if (!buckets.empty()) {
      submit({step, nullptr});
      return exchange.report(step);
    }
    bring(whole_bucket(layout).front());
    const ExchangeReport report = exchange.exchange(tables_, mean_.table, step);
    take_result();
    return report;
  }

  Tensors mean() { return result_.read(layout, stream); }
  std::uint32_t skip() { return to_host<std::uint32_t>({exchange.skip(), 1}, stream)[0]; }
  const std::vector<TensorTable>& tables() const { return tables_; }
  const TensorTable& mean_table() const { return mean_.table; }

  const Layout layout;
  Buckets buckets;
  Stream stream{Device::cuda()};
  const std::shared_ptr<StreamFork> fork;
  const WorkerRange workers;
  CompressedAllReduce exchange;

 private:
  void bring(const std::vector<int>& segments) {
    for (const int segment : segments) {
      const auto t = static_cast<std::size_t>(segment);
      for (std::size_t w = 0; w < gradients_.size(); ++w) {
        copy<float>(sources_[w].buffers[t].span(), gradients_[w].buffers[t].span(), stream);
      }
    }
  }
  void take_result() {
    for (std::size_t t = 0; t < mean_.buffers.size(); ++t) {
      copy<float>(mean_.buffers[t].span(), result_.buffers[t].span(), stream);
      for (DeviceTensors& worker : gradients_) fill_zero(worker.buffers[t].span(), stream);
      fill_zero(mean_.buffers[t].span(), stream);
    }
  }

  std::vector<DeviceTensors> sources_, gradients_;
  std::vector<TensorTable> tables_;
  DeviceTensors mean_, result_;
};

/// An exchange of all workers on the CPU, and that of one rank on a GPU.
class ExchangePair {
 public:
  ExchangePair(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options,
               const DeviceSetup& setup = {})
      : cpu(layout, plan_of(layout, num_workers, options, setup.codec),
            make_worker_group(num_workers, make_self_communicator()), options, Stream(), parse_memory(setup.memory)),
        gpu(layout, num_workers, options, setup),
        what_(options_text(options) + ", " + setup.memory + ", " + std::to_string(num_workers) + " workers, rank " +
              std::to_string(setup.communicator->rank()) + " of " + std::to_string(setup.communicator->size()) +
              ", parts " + std::to_string(setup.buckets.size()) + (setup.overlaps ? " in a branch" : "")) {}

  /// Exchanges a step on both, in one part on the CPU. Expects the same bits of the mean, of the state, and of what
  /// each local worker sent, the same skip flag, and the same words on tensors that are not finite.
  /// @param gradients  [all workers]. @returns the GPU's report
  ExchangeReport step(const std::vector<Tensors>& gradients, std::uint64_t number) {
    gpu.write(gradients);
    run_on_cpu(gradients, number);
    const ExchangeReport found = report_of([&] { return gpu.run(number); });
    expect_same(found, number);
    return found;
  }
  /// The same from a graph with the step number in the GPU's memory: capture fails if the exchange allocates, copies
  /// from the host or waits.
  void steps_from_a_graph(int num_workers) {
    Buffer<std::uint64_t> step = to_device<std::uint64_t>(std::vector<std::uint64_t>{0}, gpu.stream);
    const auto submit = [&] { gpu.submit({0, step.data()}); };
    std::unique_ptr<CapturedGraph> graph;
    for (const std::uint64_t number : {7u, 8u, 9u}) {
      const std::vector<Tensors> gradients = worker_gradients(gpu.layout, num_workers, number);
      gpu.write(gradients);
      copy<std::uint64_t>(std::vector<std::uint64_t>{number}, step.span(), gpu.stream);
      run_on_cpu(gradients, number);
      graph == nullptr ? submit() : graph->launch(gpu.stream);
      gpu.stream.synchronize();
      expect_same(gpu.exchange.report(number), number);
      if (graph == nullptr) graph = std::make_unique<CapturedGraph>(gpu.stream, submit);
    }
  }

  CompressedAllReduce cpu;
  DeviceExchange gpu;

 private:
  std::vector<int> exchanged() const {
    std::vector<int> segments;
    for (const std::vector<int>& part : gpu.buckets.empty() ? whole_bucket(gpu.layout) : gpu.buckets) {
      segments.insert(segments.end(), part.begin(), part.end());
    }
    std::ranges::sort(segments);
    return segments;
  }
  void run_on_cpu(const std::vector<Tensors>& gradients, std::uint64_t number) {
    on_cpu_ = report_of([&] {
      return exchange_in({exchanged()}, cpu, testing::tables(gradients, 0, static_cast<int>(gradients.size())),
                         mean_.table, number);
    });
  }
  void expect_same(const ExchangeReport& found, std::uint64_t number) {
    SCOPED_TRACE(what_ + ", step " + std::to_string(number));
    EXPECT_EQ(found.nonfinite, on_cpu_.nonfinite);
    EXPECT_EQ(found.skipped, on_cpu_.skipped);
    EXPECT_EQ(gpu.skip(), on_cpu_.skipped ? 1u : 0u);
    const std::span<const float> factors = cpu.shared_state().values();
    EXPECT_EQ(bits_of(to_host<float>(gpu.exchange.shared_state().values(), gpu.stream)),
              bits_of({factors.begin(), factors.end()}));
    const int first = gpu.workers.first_local_worker;
    const int count = gpu.workers.num_local_workers;
    for (int w = 0; cpu.memory() != nullptr && w < count; ++w) {
      const std::span<const float> state = cpu.memory()->state(first + w);
      EXPECT_EQ(bits_of(to_host<float>(gpu.exchange.memory()->state(w), gpu.stream)),
                bits_of({state.begin(), state.end()}))
          << "state of worker " << first + w;
    }
    if (found.skipped) return;
    const Tensors mean = gpu.mean();
    for (const int segment : exchanged()) {
      const auto t = static_cast<std::size_t>(segment);
      ASSERT_EQ(bits_of(mean.values[t]), bits_of(mean_.values[t])) << "mean of tensor " << segment;
      std::vector<float> sent(mean.values[t].size());
      std::vector<float> sent_on_cpu(sent.size());
      for (int w = 0; w < count; ++w) {
        // Compares bits: rotating back can overflow float32 for the largest scalers, and NaN != NaN.
        EXPECT_EQ(bits_of(gpu.exchange.decode_local(w, segment, sent)),
                  bits_of(cpu.decode_local(first + w, segment, sent_on_cpu)))
            << "scaler of tensor " << segment << " of worker " << first + w;
        ASSERT_EQ(bits_of(sent), bits_of(sent_on_cpu)) << "tensor " << segment << " of worker " << first + w;
      }
    }
  }

  std::string what_;
  Tensors mean_ = blank_tensors(gpu.layout);
  ExchangeReport on_cpu_;
};

}  // namespace terngrad::testing
