// An execution context: a stack and a position in the code.
#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace simt {

struct Context {
#ifdef __x86_64__
  void* stack_pointer = nullptr;  ///< the callee-saved registers lie above it
#else
  ucontext_t saved;
#endif
};

/// Makes a context that starts in `entry`, which must not return, on the given stack.
void prepare(Context& context, char* stack, std::size_t bytes, void (*entry)());

/// Saves the caller's context in `from` and continues `to`.
void jump(Context& from, Context& to);

}  // namespace simt
