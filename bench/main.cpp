#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

#ifdef TERNGRAD_BENCH_CUDA
#include "bench/cuda_harness.h"
#endif
#include "bench/harness.h"
#include "bench/rows.h"
#include "kernels/runtime/cpu/simd.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/standard_streams.h"
#include "kernels/runtime/version.h"
#ifdef TERNGRAD_BENCH_TRAINERS
#include "bench/datasets/preprocessing_bench.h"
#include "trainers/launch/build_info.h"
#endif

namespace {

/// --gpu: what the benchmarks on a GPU would run on. Scripts ask for it before they begin. @returns the exit code
int print_gpu() {
  if (terngrad::num_cuda_devices() == 0) {
    std::fprintf(stderr, "terngrad_bench: error: no GPU: %s\n", terngrad::cuda_unavailable_reason().c_str());
    return 2;
  }
  std::printf("%s\n", terngrad::Device::cuda().description().c_str());
  const std::string left_out = terngrad::cuda_unavailable_reason();
  if (!left_out.empty()) std::fprintf(stderr, "terngrad_bench: note: left out: %s\n", left_out.c_str());
  return 0;
}

/// True if Google Benchmark will warn that it was built without NDEBUG, which it says nowhere but in its report.
bool warns_of_debug_library() {
  std::ostringstream text;
  benchmark::ConsoleReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&text);
  reporter.ReportContext({});
  return text.str().find("Library was built as DEBUG") != std::string::npos;
}

#ifdef TERNGRAD_BENCH_TRAINERS
/// --images=FOLDER: what preprocessing is measured on. Takes it out of the arguments, of which the others are Google
/// Benchmark's. False, with a message, if there are none.
bool take_image_folder(int& argc, char** argv) {
  constexpr const char* kOption = "--images=";
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    if (std::strncmp(argv[i], kOption, std::strlen(kOption)) != 0) {
      argv[kept++] = argv[i];
      continue;
    }
    const std::string folder = argv[i] + std::strlen(kOption);
    if (terngrad::bench::set_image_folder(folder)) continue;
    std::fprintf(stderr, "terngrad_bench: error: --images: expected a folder with JPEG or PNG files, found '%s'\n",
                 folder.c_str());
    return false;
  }
  argc = kept;
  argv[argc] = nullptr;
  return true;
}
#endif

}  // namespace

int main(int argc, char** argv) {
  terngrad::open_standard_streams();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--version") == 0) {
#ifdef TERNGRAD_BENCH_TRAINERS
      std::fputs(terngrad::version_text("terngrad_bench").c_str(), stdout);
#else
      std::printf("terngrad_bench %s (%s)\n", terngrad::version(), terngrad::commit());
#endif
      return 0;
    }
    if (std::strcmp(argv[i], "--gpu") == 0) return print_gpu();
  }
#ifdef TERNGRAD_BENCH_TRAINERS
  if (!take_image_folder(argc, argv)) return 2;
#endif
#ifndef NDEBUG
  std::fprintf(stderr, "terngrad_bench: error: this is a debug build; its figures would mean nothing\n");
  return 2;
#endif
  benchmark::AddCustomContext("terngrad", std::string(terngrad::version()) + " (" + terngrad::commit() + ")");
  benchmark::AddCustomContext("simd", terngrad::cpu::simd_targets().front().name);
  benchmark::AddCustomContext("threads", std::to_string(terngrad::num_hardware_threads()));
  terngrad::cpu::force_simd_target("");
  const terngrad::bench::Rows rows = terngrad::bench::all_rows();
  terngrad::bench::register_on_cpu(rows.cpu);
#ifdef TERNGRAD_BENCH_CUDA
  terngrad::bench::register_on_cuda(rows.cuda);
#endif
  benchmark::AddCustomContext("gpu", terngrad::num_cuda_devices() > 0 ? terngrad::Device::cuda().description()
                                                                      : "none: " + terngrad::cuda_unavailable_reason());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (warns_of_debug_library()) {
    std::fprintf(stderr,
                 "terngrad_bench: note: the warning of a DEBUG library is of Google Benchmark, which Debian and Ubuntu "
                 "build with its assertions; terngrad and the timed loops are optimized\n");
  }
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "terngrad_bench: error: no benchmark matches --benchmark_filter\n");
    return 2;
  }
  return terngrad::bench::any_failed() ? 1 : 0;
}
