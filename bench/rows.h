// Rows of the report: subjects with their names, sizes and devices. Each bench file adds its own by a Registration.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/subject.h"

namespace terngrad::bench {

/// A benchmark on the CPU.
struct CpuRow {
  std::string name;                // slashes included
  std::int64_t read_elements = 0;  // floats of the read kernel
  int num_threads = 1;
  std::function<Subject()> make = nullptr;
};

/// Where the inputs of a benchmark on a GPU are.
enum class Residency {
  kMemory,  // sets of inputs beyond the second-level cache, in turn
  kCache,   // one set, which the second-level cache holds
};

/// A benchmark on a GPU.
struct CudaRow {
  std::string name;  // without the residency
  Residency residency = Residency::kMemory;
  std::function<Subject()> make = nullptr;
};

enum class Devices { kBoth, kCpu, kCuda };

/// Restrictions of a subject's rows.
struct Limits {
  Devices devices = Devices::kBoth;
  std::int64_t min_elements = 0;
  std::int64_t max_cpu_elements = std::numeric_limits<std::int64_t>::max();
  bool one_thread = false;   // on the CPU
  bool memory_only = false;  // on a GPU: no rows of Residency::kCache
};

/// All rows of the benchmarks, by device.
struct Rows {
  std::vector<CpuRow> cpu;
  std::vector<CudaRow> cuda;

  /// Adds a subject at all sizes: on the CPU from 1 Ki to 64 Mi elements for each of thread_counts(), with a read
  /// kernel of as many elements; on a GPU for both residencies, from 1 Mi elements in memory and up to 4 Mi in the
  /// cache.
  void add(const std::string& name, const std::string& type, const std::function<Subject(std::int64_t n)>& make,
           const Limits& limits = {});
};

/// Static object of a bench file: all_rows() calls its function.
class Registration {
 public:
  using AddRows = void (*)(Rows& rows);
  /// @param file  __FILE__, by which functions are ordered
  Registration(const char* file, AddRows add_rows);
};

/// Rows of all bench files of the program, in the order of file names.
Rows all_rows();

/// Thread counts to measure: 1, and all of the machine's if more.
std::vector<int> thread_counts();

/// "ternarize/cpu/f32/n:1048576/threads:2" and the like.
std::string cpu_row_name(const std::string& what, const std::string& type, std::int64_t n, int num_threads);
/// "ternarize/cuda/f32/n:1048576" and the like.
std::string cuda_row_name(const std::string& what, const std::string& type, std::int64_t n);

}  // namespace terngrad::bench
