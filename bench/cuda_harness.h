// The harness of the microbenchmarks on a GPU: work replayed as a graph, timed by events, beside a copy and empty
// kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/layout.h"

namespace terngrad::bench {

/// One benchmark on a GPU.
struct CudaSubject {
  /// Prepares inputs; called once, untimed. Returns the same work on several sets of inputs and outputs, which run one
  /// after the other: sets that together exceed the second-level cache show the speed of memory, one small set that of
  /// the cache.
  std::function<std::vector<std::function<void()>>(Stream& stream, int num_sets)> prepare;
  /// Called after all sets have run once; says whether the results are right. Untimed.
  std::function<bool(Stream& stream)> check;
  double bytes = 0;      // read and written by one run, as counted
  double elements = 0;   // of the gradient, or float values in all
  int num_launches = 1;  // kernels of one run
};

/// Where the inputs of a benchmark are.
enum class Residency {
  kMemory,  // sets of inputs beyond the second-level cache, in turn
  kCache,   // one set, which the second-level cache holds
};

/// How much is measured. The defaults are for a GPU; the emulation of tests/simt runs everything once.
struct CudaMeasurement {
  int rounds = 25;
  double warm_seconds = 0.3;                           // of work before the first round: clocks rise by then
  int max_runs = 512;                                  // of the work in one round, all sets together
  std::int64_t copy_elements = std::int64_t{1} << 27;  // floats of the copy that stands for the speed of memory
  int step_examples = 0;                               // of a training step; 0: as many as the net is trained with
};

/// What register_cuda_subject and the benchmarks go by; to be changed before the first registration.
CudaMeasurement& cuda_measurement();

/// Registers `subject` under `name` with "/memory" or "/cache" behind it. In every round a copy from device to device,
/// a graph of as many kernels that only wait for memory, and the work as a graph are timed, so that all see the GPU in
/// the same state, which is made busy before. Reported, as medians over the rounds: median_us (time of one run), GBps
/// (gradient bytes, 4 per element, per second), moved_GBps (`bytes` per second), copy_GBps (bytes read and written by
/// the copy per second), of_copy (their ratio), floor_us (the kernels that only wait: four loads in a chain and a store
/// each, as a kernel here reads its task, its tile, a scaler and its data), and for a cache-resident set of_target: the
/// time over floor_us + bytes / (1.3 copy_GBps). sm_MHz is the clock of the multiprocessors behind the last round,
/// where the driver's management library says it. A wrong result fails the run.
/// @param set_bytes  memory that one set of inputs and outputs takes
void register_cuda_subject(const std::string& name, double set_bytes, Residency residency,
                           const std::function<CudaSubject()>& make);

/// Copies of make_gradient's values on the GPU, one per set.
std::vector<Buffer<float>> gradients_on(Stream& stream, std::int64_t count, int num_sets);

/// "ternarize/cuda/f32/n:1048576" and the like.
std::string cuda_bench_name(const std::string& what, const std::string& type, std::int64_t n);

/// Sizes for memory and for the cache.
const std::vector<std::int64_t>& cuda_memory_sizes();
const std::vector<std::int64_t>& cuda_cache_sizes();

/// Threads of a block of the kernel that only waits.
constexpr std::int64_t kLatencyThreads = 256;

/// Runs a block on each multiprocessor or so, whose threads follow `next` from their own element in `links` loads that
/// wait for each other, and store where they come to in `out`, of kLatencyThreads elements.
void launch_latency_kernel(const Buffer<std::uint32_t>& next, int links, Buffer<std::uint32_t>& out, Stream& stream);

}  // namespace terngrad::bench
