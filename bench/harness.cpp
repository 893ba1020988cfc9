#include "bench/harness.h"

#include <algorithm>
#include <chrono>

#include "bench/gradients.h"
#include "kernels/runtime/machine.h"

namespace terngrad::bench {
namespace {

bool failed = false;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void run(benchmark::State& state, const CpuRow& row) {
  Stream stream(Device::cpu(), row.num_threads);
  const Subject subject = row.make();
  const Work work = subject.prepare(stream);
  work.run();
  if (!work.check()) return fail(state, "wrong result");
  const std::span<const float> values = gradient(row.read_elements);
  benchmark::DoNotOptimize(read_all(values, stream));
  std::vector<double> reads;
  std::vector<double> works;
  for (auto _ : state) {
    const double begin = now();
    benchmark::DoNotOptimize(read_all(values, stream));
    const double middle = now();
    work.run();
    benchmark::ClobberMemory();
    const double end = now();
    reads.push_back(middle - begin);
    works.push_back(end - middle);
    state.SetIterationTime(end - middle);
  }
  const double work_seconds = median(works);
  const double read_rate = 4.0 * static_cast<double>(row.read_elements) / median(reads);
  const double rate = 4.0 * subject.elements / work_seconds;
  state.counters["rounds"] = static_cast<double>(works.size());
  state.counters["GBps"] = rate * 1e-9;
  state.counters["read_GBps"] = read_rate * 1e-9;
  state.counters["of_read"] = rate / read_rate;
  state.counters["moved_GBps"] = subject.bytes / work_seconds * 1e-9;
  if (subject.examples > 0) {
    state.counters["examples_per_s"] = subject.examples / work_seconds;
    state.counters["peak_MiB"] = peak_resident_bytes() / (1 << 20);
  }
  if (subject.counters) {
    for (const auto& [name, value] : subject.counters()) state.counters[name] = value;
  }
}

}  // namespace

void register_on_cpu(const std::vector<CpuRow>& rows) {
  for (const CpuRow& row : rows) {
    benchmark::internal::Benchmark* registered =
        benchmark::RegisterBenchmark(row.name.c_str(), [row](benchmark::State& state) { run(state, row); });
    registered->UseManualTime()->Unit(benchmark::kMicrosecond);
    // At least 15 rounds: fixed for large inputs, far more than that by time for small ones.
    if (row.read_elements >= 1 << 22) {
      registered->Iterations(15);
    } else {
      registered->MinTime(0.05);
    }
  }
}

void fail(benchmark::State& state, const char* why) {
  failed = true;
  state.SkipWithError(why);
}

bool any_failed() { return failed; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace terngrad::bench
