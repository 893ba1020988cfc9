// say_when_out_of_memory: an error that says what there was no memory for.
#pragma once

#include <new>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Calls `work` and returns its result. @throws Error "out of memory while DOING" for std::bad_alloc, and whatever else
/// it throws
template <class Work>
decltype(auto) say_when_out_of_memory(const std::string& doing, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error("out of memory while " + doing);
  }
}

}  // namespace terngrad
