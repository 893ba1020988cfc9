// say_when_out_of_memory: turns std::bad_alloc into an error with a description.
#pragma once

#include <new>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Calls `work` and returns its result. @throws Error "out of memory while DOING" for std::bad_alloc, and other
/// exceptions of `work`
template <class Work>
decltype(auto) say_when_out_of_memory(const std::string& doing, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error("out of memory while " + doing);
  }
}

}  // namespace terngrad
