#include "bench/rows.h"

#include <map>

namespace terngrad::bench {
namespace {

// 25 million elements are far beyond most caches.
constexpr std::int64_t kCpuSizes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 25'000'000, 1 << 26};
constexpr std::int64_t kCudaMemorySizes[] = {1 << 20, 1 << 23, 25'000'000, 1 << 26};
constexpr std::int64_t kCudaCacheSizes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22};

/// Static objects of other files add to it: it is made when first used.
std::map<std::string, Registration::AddRows>& registrations() {
  static std::map<std::string, Registration::AddRows> functions;
  return functions;
}

}  // namespace

Registration::Registration(const char* file, AddRows add_rows) { registrations().emplace(file, add_rows); }

Rows all_rows() {
  Rows rows;
  for (const auto& [file, add_rows] : registrations()) add_rows(rows);
  return rows;
}

void Rows::add(const std::string& name, const std::string& type, const std::function<Subject(std::int64_t n)>& make,
               const Limits& limits) {
  const auto add_cuda = [&](std::int64_t n, Residency residency) {
    if (n >= limits.min_elements) cuda.push_back({cuda_row_name(name, type, n), residency, [=] { return make(n); }});
  };
  if (limits.devices != Devices::kCuda) {
    for (const std::int64_t n : kCpuSizes) {
      if (n < limits.min_elements || n > limits.max_cpu_elements) continue;
      for (const int threads : limits.one_thread ? std::vector<int>{1} : thread_counts()) {
        cpu.push_back({cpu_row_name(name, type, n, threads), n, threads, [=] { return make(n); }});
      }
    }
  }
  if (limits.devices != Devices::kCpu) {
    for (const std::int64_t n : kCudaMemorySizes) add_cuda(n, Residency::kMemory);
    if (limits.memory_only) return;
    for (const std::int64_t n : kCudaCacheSizes) add_cuda(n, Residency::kCache);
  }
}

std::vector<int> thread_counts() {
  const int all = num_hardware_threads();
  return all > 1 ? std::vector<int>{1, all} : std::vector<int>{1};
}

std::string cpu_row_name(const std::string& what, const std::string& type, std::int64_t n, int num_threads) {
  return what + "/cpu/" + type + "/n:" + std::to_string(n) + "/threads:" + std::to_string(num_threads);
}

std::string cuda_row_name(const std::string& what, const std::string& type, std::int64_t n) {
  return what + "/cuda/" + type + "/n:" + std::to_string(n);
}

}  // namespace terngrad::bench
