#include "scheduler/context.h"

#ifdef __x86_64__

// Ten times as fast as swapcontext, which saves signal masks by two system calls.
extern "C" void simt_switch(void** save, void* load);
asm(R"(
.text
.type simt_switch, @function
simt_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size simt_switch, . - simt_switch
)");

namespace simt {

void prepare(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  // simt_switch pops six registers and returns to `entry`, which expects the stack as after a call: 8 bytes above a
  // multiple of 16.
  constexpr int kSavedRegisters = 6;
  void** top = reinterpret_cast<void**>(stack + bytes) - 2;
  *top = reinterpret_cast<void*>(entry);
  context.stack_pointer = top - kSavedRegisters;
}

void jump(Context& from, Context& to) { simt_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace simt

#else

namespace simt {

void prepare(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&context.saved);
  context.saved.uc_stack.ss_sp = stack;
  context.saved.uc_stack.ss_size = bytes;
  makecontext(&context.saved, entry, 0);
}

void jump(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

}  // namespace simt

#endif
