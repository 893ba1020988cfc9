#include "bench/cuda_harness.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include "bench/gradients.h"
#include "bench/harness.h"
#include "bench/sm_clock.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/stream_timer.h"

namespace terngrad::bench {
namespace {

/// Twice the largest second-level cache of a GPU so far, and then some.
constexpr double kBeyondCache = 512.0 * (1 << 20);
/// Bytes that one timing should move, so that it lasts long enough for the events' clock.
constexpr double kTimedBytes = 1e9;

/// Times what `submit` gives to the stream.
template <class Submit>
double timed(Stream& stream, StreamTimer& timer, const Submit& submit) {
  timer.start(stream);
  submit();
  timer.stop(stream);
  return timer.seconds();
}

/// Loads in a chain of a kernel here before it stores: its task, its tile, a scaler, its data.
constexpr int kLinks = 4;

/// Each link leads to a line of 128 bytes that the warp has not read yet, which its first-level cache does not have: so
/// every load waits for the second-level cache, as a kernel's do whose data another kernel has written.
struct LatencyMemory {
  explicit LatencyMemory(Stream& stream) {
    std::vector<std::uint32_t> links(kLatencyThreads * (kLinks + 1));
    std::iota(links.begin(), links.end(), kLatencyThreads);
    copy<std::uint32_t>(links, next.span(), stream);
    stream.synchronize();
  }
  Buffer<std::uint32_t> next{kLatencyThreads * (kLinks + 1), Device::cuda()};
  Buffer<std::uint32_t> out{kLatencyThreads, Device::cuda()};
};

/// Keeps the GPU busy for as long as its clocks need to rise, and until two copies in a row take equally long within 2
/// %, though no longer than ten times that.
template <class Work, class Copy>
void warm_up(Stream& stream, StreamTimer& timer, const Work& work, const Copy& copy_once) {
  const double enough = cuda_measurement().warm_seconds;
  double last = 0;
  for (double busy = 0; busy < 10 * enough;) {
    busy += timed(stream, timer, work);
    const double seconds = timed(stream, timer, copy_once);
    busy += seconds;
    if (busy >= enough && std::abs(seconds - last) <= 0.02 * last) return;
    last = seconds;
  }
}

/// Copies a gradient over and over: memory that nobody has written may be served as zeros.
struct CopyPair {
  explicit CopyPair(Stream& stream) {
    const std::int64_t piece = std::min<std::int64_t>(from.num_elements(), 1 << 22);
    const std::span<const float> values = gradient(piece);
    for (std::int64_t at = 0; at < from.num_elements(); at += piece) {
      const auto count = static_cast<std::size_t>(std::min(piece, from.num_elements() - at));
      copy<float>(values.first(count), from.span().subspan(static_cast<std::size_t>(at), count), stream);
    }
    stream.synchronize();
  }
  Buffer<float> from{cuda_measurement().copy_elements, Device::cuda()};
  Buffer<float> to{cuda_measurement().copy_elements, Device::cuda()};
};

void report(benchmark::State& state, const Subject& subject, Residency residency, const std::vector<double>& works,
            const std::vector<double>& copies, const std::vector<double>& floors) {
  const double seconds = median(works);
  const double floor = median(floors);
  const double copy_rate = 8.0 * static_cast<double>(cuda_measurement().copy_elements) / median(copies);
  state.counters["rounds"] = static_cast<double>(works.size());
  state.counters["median_us"] = seconds * 1e6;
  state.counters["best_us"] = *std::min_element(works.begin(), works.end()) * 1e6;
  state.counters["GBps"] = 4.0 * subject.elements / seconds * 1e-9;
  state.counters["moved_GBps"] = subject.bytes / seconds * 1e-9;
  state.counters["copy_GBps"] = copy_rate * 1e-9;
  state.counters["of_copy"] = subject.bytes / seconds / copy_rate;
  state.counters["floor_us"] = floor * 1e6;
  state.counters["launches"] = subject.num_launches;
  if (const int clock = sm_clock_mhz(Device::cuda()); clock > 0) state.counters["sm_MHz"] = clock;
  if (residency == Residency::kCache) {
    state.counters["of_target"] = seconds / (floor + subject.bytes / (1.3 * copy_rate));
  }
}

void run(benchmark::State& state, const CudaRow& row) {
  Stream stream(Device::cuda());
  const Subject subject = row.make();
  const double set_bytes = subject.set_bytes > 0 ? subject.set_bytes : subject.bytes;
  const int num_sets =
      row.residency == Residency::kCache
          ? 1
          : std::clamp(static_cast<int>(std::ceil(kBeyondCache / set_bytes)), 1, cuda_measurement().max_runs);
  std::vector<Work> works;
  works.reserve(static_cast<std::size_t>(num_sets));
  for (int set = 0; set < num_sets; ++set) works.push_back(subject.prepare(stream));
  for (const Work& work : works) work.run();
  stream.synchronize();
  if (!works.back().check()) return fail(state, "wrong result");
  const int per_set = std::clamp(static_cast<int>(kTimedBytes / std::max(1.0, subject.bytes)) / num_sets, 1,
                                 std::max(1, cuda_measurement().max_runs / num_sets));
  const int runs = per_set * num_sets;
  const CapturedGraph graph(stream, [&] {
    for (int i = 0; i < per_set; ++i) {
      for (const Work& work : works) work.run();
    }
  });
  static LatencyMemory memory(stream);
  const CapturedGraph waiting(stream, [&] {
    for (int i = 0; i < runs * subject.num_launches; ++i) {
      launch_latency_kernel(memory.next, kLinks, memory.out, stream);
    }
  });
  static CopyPair pair(stream);
  std::vector<double> seconds;
  std::vector<double> copies;
  std::vector<double> floors;
  StreamTimer timer(Device::cuda());
  const auto copy_once = [&] { copy<float>(pair.from.span(), pair.to.span(), stream); };
  graph.launch(stream);
  waiting.launch(stream);
  copy_once();
  warm_up(
      stream, timer, [&] { graph.launch(stream); }, copy_once);
  for (auto _ : state) {
    copies.push_back(timed(stream, timer, copy_once));
    floors.push_back(timed(stream, timer, [&] { waiting.launch(stream); }) / runs);
    seconds.push_back(timed(stream, timer, [&] { graph.launch(stream); }) / runs);
    state.SetIterationTime(seconds.back());
  }
  report(state, subject, row.residency, seconds, copies, floors);
}

}  // namespace

CudaMeasurement& cuda_measurement() {
  static CudaMeasurement measurement;
  return measurement;
}

void register_on_cuda(const std::vector<CudaRow>& rows) {
  if (num_cuda_devices() == 0) return;
  for (const CudaRow& row : rows) {
    register_cuda_function(row.name + (row.residency == Residency::kMemory ? "/memory" : "/cache"),
                           [row](benchmark::State& state) { run(state, row); });
  }
}

void register_cuda_function(const std::string& name, const std::function<void(benchmark::State& state)>& run) {
  const auto run_or_fail = [run](benchmark::State& state) {
    try {
      run(state);
    } catch (const std::exception& error) {
      fail(state, error.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), run_or_fail)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(cuda_measurement().rounds);
}

}  // namespace terngrad::bench
