// Exchanges of several ranks, as threads that share one GPU.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "support/device_exchange.h"
#include "support/thread_device_communicator.h"

namespace terngrad::testing {

/// Runs body(communicator) on each rank. @throws the first rank's exception, if any
template <class Body>
void on_device_ranks(int size, const Body& body) {
  for (const std::exception_ptr& error : run_device_ranks(size, body)) {
    if (error) std::rethrow_exception(error);
  }
}

/// Expects the CPU's means, reports, state and messages in steps 3 and 4, with each number of ranks in `sizes`.
inline void expect_cpus_bits(const std::vector<Tensors>& workers, const CompressedAllReduceOptions& options,
                             std::span<const int> sizes, const Layout& layout = mixed_layout()) {
  for (const int size : sizes) {
    on_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
      ExchangePair pair(layout, static_cast<int>(workers.size()), options, {.communicator = communicator});
      for (const std::uint64_t step : {3u, 4u}) pair.step(workers, step);
    });
  }
}

/// Reports of one step, by rank.
inline std::vector<ExchangeReport> reports_of_ranks(int size, const std::vector<Tensors>& workers,
                                                    const CompressedAllReduceOptions& options) {
  std::vector<ExchangeReport> reports(static_cast<std::size_t>(size));
  on_device_ranks(size, [&](const std::shared_ptr<DeviceCommunicator>& communicator) {
    DeviceExchange rank(mixed_layout(), static_cast<int>(workers.size()), options, {.communicator = communicator});
    rank.write(workers);
    reports[static_cast<std::size_t>(communicator->rank())] = rank.run(1);
  });
  return reports;
}

}  // namespace terngrad::testing
