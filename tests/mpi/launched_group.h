// The process group of the ranks that the test program was launched as. Each process joins it once.
#pragma once

#include "trainers/launch/process_group.h"

namespace terngrad::testing {

inline ProcessGroup*& launched_group_pointer() {
  static ProcessGroup* group = nullptr;
  return group;
}
inline ProcessGroup& launched_group() { return *launched_group_pointer(); }

}  // namespace terngrad::testing
