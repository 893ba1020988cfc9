// Runs the GPU benchmarks in the emulation, once each, to check their results; times mean nothing. Takes Google
// Benchmark's options. Exit codes: 0 success, 1 wrong result, 2 wrong usage.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "bench/cuda_harness.h"
#include "bench/harness.h"
#include "bench/rows.h"

int main(int argc, char** argv) {
  terngrad::bench::cuda_measurement() = {
      .rounds = 1, .warm_seconds = 0, .max_runs = 1, .copy_elements = 4096, .step_examples = 2};
  terngrad::bench::register_on_cuda(terngrad::bench::all_rows().cuda);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "terngrad_bench_simt: error: no benchmark matches --benchmark_filter\n");
    return 2;
  }
  return terngrad::bench::any_failed() ? 1 : 0;
}
