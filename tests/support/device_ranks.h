// CompressedAllReduce with several ranks, as threads that share one device.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/exchanges.h"
#include "support/thread_device_communicator.h"

namespace terngrad::testing {

struct RankResult {
  Tensors mean;
  ExchangeReport report;
  std::vector<float> sent;  // decoded message of the rank's last worker, tensor 0
  float scaler = 0;
  std::uint32_t skip = 0;
};

inline RankResult exchange_of_rank(const std::shared_ptr<DeviceCommunicator>& communicator, const Layout& layout,
                                   const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                                   std::span<const std::uint64_t> steps) {
  const WorkerRange range = worker_range(static_cast<int>(workers.size()), communicator->rank(), communicator->size());
  Stream stream(Device::cuda());
  CompressedAllReduce exchange(layout, {range, communicator}, options, stream);
  std::vector<DeviceTensors> gradients;
  std::vector<TensorTable> local;
  for (int w = range.first_local_worker; w < range.first_local_worker + range.num_local_workers; ++w) {
    gradients.emplace_back(layout, workers[static_cast<std::size_t>(w)], stream);
    local.push_back(gradients.back().table);
  }
  const DeviceTensors mean(layout, blank_tensors(layout), stream);
  RankResult result;
  for (const std::uint64_t step : steps) result.report = exchange.exchange(local, mean.table, step);
  result.mean = mean.read(layout, stream);
  result.sent.resize(static_cast<std::size_t>(layout.segment(0).num_elements));
  if (!result.report.skipped) result.scaler = exchange.decode_local(range.num_local_workers - 1, 0, result.sent);
  result.skip = to_host<std::uint32_t>({exchange.skip(), 1}, stream)[0];
  return result;
}

/// Results by rank. @throws the first rank's exception, if any
inline std::vector<RankResult> run_all(int size, const std::vector<Tensors>& workers,
                                       const CompressedAllReduceOptions& options, std::span<const std::uint64_t> steps,
                                       const Layout& layout = mixed_layout()) {
  std::vector<RankResult> results(static_cast<std::size_t>(size));
  const auto errors = run_device_ranks(size, [&](std::shared_ptr<DeviceCommunicator> communicator) {
    results[static_cast<std::size_t>(communicator->rank())] =
        exchange_of_rank(communicator, layout, workers, options, steps);
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return results;
}

/// Runs steps 3 and 4 on the CPU and with each number of ranks in `sizes`; expects equal means, non-finite reports,
/// sent values and scalers.
inline void expect_cpus_bits(const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                             std::span<const int> sizes, const Layout& layout = mixed_layout()) {
  constexpr std::array<std::uint64_t, 2> kSteps = {3, 4};
  const auto num_workers = static_cast<int>(workers.size());
  CompressedAllReduce cpu = local_exchange(layout, num_workers, options);
  Tensors expected = blank_tensors(layout);
  ExchangeReport on_cpu;
  for (const std::uint64_t step : kSteps) on_cpu = cpu.exchange(tables(workers, 0, num_workers), expected.table, step);
  for (const int size : sizes) {
    const std::string what = options.codecs.codec + ", " + options_text(options) + ", " + std::to_string(num_workers) +
                             " workers, " + std::to_string(size) + " ranks";
    const std::vector<RankResult> results = run_all(size, workers, options, kSteps, layout);
    for (int rank = 0; rank < size; ++rank) {
      const RankResult& found = results[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(same_bits(expected.values, found.mean)) << what << ", rank " << rank;
      EXPECT_EQ(found.report.nonfinite, on_cpu.nonfinite) << what;
      const WorkerRange range = worker_range(num_workers, rank, size);
      std::vector<float> sent(found.sent.size());
      const float scaler = cpu.decode_local(range.first_local_worker + range.num_local_workers - 1, 0, sent);
      ASSERT_EQ(bits_of(scaler), bits_of(found.scaler)) << what;
      // Compares bits: rotating back can overflow float32 for the largest scalers, and NaN != NaN.
      ASSERT_EQ(bits_of(sent), bits_of(found.sent)) << what << ", rank " << rank;
    }
  }
}

inline CompressedAllReduceOptions options_with(const TernaryOptions& ternary,
                                               DownlinkCodec downlink_codec = DownlinkCodec::kFloat32,
                                               ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAllGather) {
  CompressedAllReduceOptions options = options_of(algorithm, downlink_codec);
  options.codecs.codec = ternary_spec(ternary);
  return options;
}

}  // namespace terngrad::testing
