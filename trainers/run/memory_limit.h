// memory_limit: the memory that this process can use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace terngrad {

/// A limit of memory and its origin.
struct MemoryLimit {
  double bytes = 0;     // infinity if there is no limit
  std::string subject;  // subject of "... has N GB", e.g. "this machine"
};

/// The smallest of the machine's memory, the limits of this process's control groups (versions 1 and 2, those around
/// them included) and `address_space`. Without swap, as training touches all of its memory in every step.
/// @param root           root of the files that are read: proc/meminfo, proc/self/cgroup, sys/fs/cgroup
/// @param address_space  bytes, RLIM_INFINITY for no limit
MemoryLimit memory_limit(const std::filesystem::path& root, std::uint64_t address_space);
/// The limit of this process.
MemoryLimit memory_limit();

}  // namespace terngrad
