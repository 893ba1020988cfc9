#include "trainers/run/memory_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <fstream>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr double kMegabyte = 1e6;

}  // namespace

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  if (!(file >> total >> resident)) TERNGRAD_THROW(Error, "--memory: /proc/self/statm cannot be read");
  return static_cast<double>(resident * ::sysconf(_SC_PAGESIZE));
}

std::string memory_table(std::span<const MemoryStages> of_processes, const MemoryLimit& limit) {
  std::string text = fmt::format(
      "resident host memory in MB (10^6 bytes), measured in the run's first steps\n"
      "{:>7} {:>12} {:>14} {:>12} {:>13} {:>12}\n",
      "process", "program", "+ training set", "+ set up", "+ first steps", "peak");
  double sum = 0;
  for (std::size_t process = 0; process < of_processes.size(); ++process) {
    const MemoryStages& of = of_processes[process];
    text += fmt::format("{:>7} {:>12.2f} {:>14.2f} {:>12.2f} {:>13.2f} {:>12.2f}\n", process, of.program / kMegabyte,
                        of.data / kMegabyte, of.setup / kMegabyte, of.steps / kMegabyte, of.peak / kMegabyte);
    sum += of.peak;
  }
  if (of_processes.size() > 1) {
    text += fmt::format("all {} processes together {:.2f} MB\n", of_processes.size(), sum / kMegabyte);
  }
  text += "not measured: evaluations, checkpoints being read and written\n";
  if (std::isfinite(limit.bytes)) text += fmt::format("{} has {:.2f} MB\n", limit.subject, limit.bytes / kMegabyte);
  return text;
}

}  // namespace terngrad
