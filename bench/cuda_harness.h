// The harness of the microbenchmarks on a GPU: work replayed as a graph, timed by events, beside a copy and empty
// kernels.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/rows.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"

namespace terngrad::bench {

/// How much is measured. The defaults are for a GPU; the emulation of tests/simt runs everything once.
struct CudaMeasurement {
  int rounds = 25;
  double warm_seconds = 0.3;                           // work before the first round: clocks rise by then
  int max_runs = 512;                                  // runs of work in one round, all sets together
  std::int64_t copy_elements = std::int64_t{1} << 27;  // floats of the copy that stands for the speed of memory
  int step_examples = 0;                               // batch of a training step; 0: the net's own
};

/// Settings of all benchmarks on a GPU; to be changed before all_rows().
CudaMeasurement& cuda_measurement();

/// Registers rows with Google Benchmark under their names with "/memory" or "/cache" behind them; none on a machine
/// without a GPU. Every set of a subject's inputs is prepared; they run one after the other, and the results of the
/// last are checked. In every round a copy from device to device, a graph of as many kernels that only wait for memory,
/// and the work as a graph are timed, so that all see the GPU in the same state, which is made busy before. Reported,
/// as medians over the rounds: median_us (time of one run), GBps (gradient bytes, 4 per element, per second),
/// moved_GBps (`bytes` per second), copy_GBps (bytes read and written by the copy per second), of_copy (their ratio),
/// floor_us (the kernels that only wait: four loads in a chain and a store each, as a kernel here reads its task, its
/// tile, a scaler and its data), and for a cache-resident set of_target: the time over floor_us + bytes / (1.3
/// copy_GBps). sm_MHz is the clock of the multiprocessors after the last round, where the driver's management library
/// says it. A wrong result fails the run.
void register_on_cuda(const std::vector<CudaRow>& rows);

/// Registers a benchmark that measures by itself, with the rounds of cuda_measurement(). One that throws, without
/// memory say, fails alone.
void register_cuda_function(const std::string& name, const std::function<void(benchmark::State& state)>& run);

/// Threads of a block of the kernel that only waits.
constexpr std::int64_t kLatencyThreads = 256;

/// Runs a block on each multiprocessor or so, whose threads follow `next` from their own element in `links` loads that
/// wait for each other, and store where they come to in `out`, of kLatencyThreads elements.
void launch_latency_kernel(const Buffer<std::uint32_t>& next, int links, Buffer<std::uint32_t>& out, Stream& stream);

}  // namespace terngrad::bench
