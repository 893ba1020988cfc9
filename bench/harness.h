// The harness of the microbenchmarks on the CPU: paired timing against a read kernel, rates, and checks.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bench/rows.h"
#include "kernels/runtime/device.h"

namespace terngrad::bench {

/// The ceiling: sums floats with eight vector accumulators on stream.num_threads() threads, reading memory once and
/// writing nothing.
float read_all(std::span<const float> values, Stream& stream);

/// Registers rows with Google Benchmark. In every round the read kernel runs just before the subject, so that both see
/// the machine in the same state. Reported, as medians over the rounds: time, GBps (gradient bytes, 4 per element, per
/// second), read_GBps (the read kernel's), of_read (their ratio), moved_GBps (all bytes read and written). Work on
/// examples also reports examples_per_s and peak_MiB, the most memory the process has had so far (filter for one
/// subject to see its own). A wrong result fails the run.
void register_on_cpu(const std::vector<CpuRow>& rows);

/// Ends a benchmark with an error, which any_failed() reports.
void fail(benchmark::State& state, const char* why);
/// True if fail() was called.
bool any_failed();

/// The upper median; 0 if there are no values.
double median(std::vector<double> values);

}  // namespace terngrad::bench
