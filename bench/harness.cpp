#include "bench/harness.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numbers>

#include "kernels/random/philox.h"
#include "kernels/runtime/parallel.h"

namespace terngrad::bench {
namespace {

bool failed = false;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The largest resident set of the process so far.
double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run(benchmark::State& state, std::int64_t read_elements, int num_threads, const std::function<Subject()>& make) {
  Stream stream(Device::cpu(), num_threads);
  Subject subject = make();
  const std::function<void()> work = subject.prepare(stream);
  work();
  if (!subject.check()) {
    failed = true;
    state.SkipWithError("wrong result");
    return;
  }
  const float* values = gradient(read_elements);
  benchmark::DoNotOptimize(read_all(values, read_elements, stream));
  std::vector<double> reads;
  std::vector<double> works;
  for (auto _ : state) {
    const double begin = now();
    benchmark::DoNotOptimize(read_all(values, read_elements, stream));
    const double middle = now();
    work();
    benchmark::ClobberMemory();
    const double end = now();
    reads.push_back(middle - begin);
    works.push_back(end - middle);
    state.SetIterationTime(end - middle);
  }
  const double work_seconds = median(works);
  const double read_rate = 4.0 * static_cast<double>(read_elements) / median(reads);
  const double rate = 4.0 * subject.elements / work_seconds;
  state.counters["rounds"] = static_cast<double>(works.size());
  state.counters["GBps"] = rate * 1e-9;
  state.counters["read_GBps"] = read_rate * 1e-9;
  state.counters["of_read"] = rate / read_rate;
  state.counters["moved_GBps"] = subject.bytes / work_seconds * 1e-9;
  if (subject.examples > 0) {
    state.counters["examples_per_s"] = subject.examples / work_seconds;
    state.counters["peak_MiB"] = peak_mebibytes();
  }
  if (subject.counters) {
    for (const auto& [name, value] : subject.counters()) state.counters[name] = value;
  }
}

}  // namespace

bool any_failed() { return failed; }

void note_failure() { failed = true; }

const std::vector<std::int64_t>& sizes() {
  static const std::vector<std::int64_t> list = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 25'000'000, 1 << 26};
  return list;
}

std::vector<int> thread_counts() {
  const int all = num_hardware_threads();
  return all > 1 ? std::vector<int>{1, all} : std::vector<int>{1};
}

Buffer<float> make_gradient(std::int64_t count, std::uint64_t index) {
  Buffer<float> values(count);
  const DrawKey key{index, 0, 0, DrawPurpose::kSyntheticData};
  parallel_for(num_hardware_threads(), count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += 4) {
      const auto words = draw_block(key, static_cast<std::uint64_t>(i / 4));
      for (std::size_t j = 0; j < 4 && i + static_cast<std::int64_t>(j) < end; j += 2) {
        // Box-Muller, in float: a benchmark's input need not be the same on every machine.
        const float radius = std::sqrt(-2.0f * std::log((static_cast<float>(words[j] >> 8) + 0.5f) * 0x1p-24f));
        const float angle = 2.0f * std::numbers::pi_v<float> * static_cast<float>(words[j + 1] >> 8) * 0x1p-24f;
        values.data()[i + static_cast<std::int64_t>(j)] = 0.01f * radius * std::cos(angle);
        if (i + static_cast<std::int64_t>(j) + 1 < end) {
          values.data()[i + static_cast<std::int64_t>(j) + 1] = 0.01f * radius * std::sin(angle);
        }
      }
    }
  });
  return values;
}

const float* gradient(std::int64_t count) {
  static Buffer<float> values;
  if (values.num_elements() < count) values = make_gradient(count, 1);
  return values.data();
}

std::string bench_name(const std::string& what, const std::string& type, std::int64_t n, int num_threads) {
  return what + "/cpu/" + type + "/n:" + std::to_string(n) + "/threads:" + std::to_string(num_threads);
}

void register_subject(const std::string& name, std::int64_t read_elements, int num_threads,
                      const std::function<Subject()>& make) {
  benchmark::internal::Benchmark* registered = benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { run(state, read_elements, num_threads, make); });
  registered->UseManualTime()->Unit(benchmark::kMicrosecond);
  // At least 15 rounds: fixed for large inputs, far more than that by time for small ones.
  if (read_elements >= 1 << 22) {
    registered->Iterations(15);
  } else {
    registered->MinTime(0.05);
  }
}

}  // namespace terngrad::bench
