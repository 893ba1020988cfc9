// A place in a running program: a stack, and where on it to continue.
#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace simt {

struct Context {
#ifdef __x86_64__
  void* stack_pointer = nullptr;  ///< the registers that a function must preserve lie above it
#else
  ucontext_t saved;
#endif
};

/// Makes a context that begins in `entry`, which must not return, on the given stack.
void prepare(Context& context, char* stack, std::size_t bytes, void (*entry)());

/// Keeps the place of the caller in `from` and continues at `to`.
void jump(Context& from, Context& to);

}  // namespace simt
