// memory_limit: how much memory this process can have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace terngrad {

struct MemoryLimit {
  double bytes = 0;     // infinity where nothing says
  std::string subject;  // what has that much, e.g. "this machine"; goes with "has N GB"
};

/// The smallest of the machine's memory, the limits of this process's control groups (versions 1 and 2, those around
/// them included) and `address_space`. Swap does not count: training touches all of its memory in every step.
/// @param root           of the files to look into: proc/meminfo, proc/self/cgroup, sys/fs/cgroup
/// @param address_space  bytes, RLIM_INFINITY for no limit
MemoryLimit memory_limit(const std::filesystem::path& root, std::uint64_t address_space);
/// The same of this process.
MemoryLimit memory_limit();

}  // namespace terngrad
