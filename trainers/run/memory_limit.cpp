#include "trainers/run/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// MemTotal of proc/meminfo (KiB) in bytes.
double machine_bytes(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    double kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemTotal:") return kibibytes * 1024;
  }
  return kNoLimit;
}

/// The number in a control group's file; kNoLimit if there is no file or it contains "max".
double limit_in(const fs::path& path) {
  std::ifstream file(path);
  double bytes = 0;
  return file >> bytes ? bytes : kNoLimit;
}

/// The smallest limit of a group and its parents. In a container, the group's path may be that of the host; then the
/// mounted top is the container's own group.
double hierarchy_limit(const fs::path& mount, const fs::path& group, const char* file_name) {
  double smallest = limit_in(mount / file_name);
  fs::path at = mount;
  for (const fs::path& name : group.relative_path()) {
    at /= name;
    smallest = std::min(smallest, limit_in(at / file_name));
  }
  return smallest;
}

/// The smallest cgroup limit. Lines of proc/self/cgroup are NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
double group_bytes(const fs::path& root) {
  double smallest = kNoLimit;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers == ",,") {
      smallest = std::min(smallest, hierarchy_limit(mount, group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      smallest = std::min(smallest, hierarchy_limit(mount / "memory", group, "memory.limit_in_bytes"));
    }
  }
  return smallest;
}

}  // namespace

MemoryLimit memory_limit(const fs::path& root, std::uint64_t address_space) {
  MemoryLimit limit{.bytes = machine_bytes(root), .subject = "this machine"};
  const auto take = [&](double bytes, const char* subject) {
    if (bytes < limit.bytes) limit = {.bytes = bytes, .subject = subject};
  };
  take(group_bytes(root), "the control group of this process");
  if (address_space != RLIM_INFINITY) {
    take(static_cast<double>(address_space), "the address space of this process (ulimit -v)");
  }
  return limit;
}

MemoryLimit memory_limit() {
  rlimit address_space{};
  const bool is_known = ::getrlimit(RLIMIT_AS, &address_space) == 0;
  return memory_limit("/", is_known ? address_space.rlim_cur : RLIM_INFINITY);
}

}  // namespace terngrad
