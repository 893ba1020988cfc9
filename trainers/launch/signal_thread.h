// A separate thread that handles stop signals.
#pragma once

namespace terngrad {

/// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread and in all threads that it creates later, and starts a
/// thread in which they are not blocked: handlers run there. To be called before the program creates any thread;
/// further calls do nothing.
///
/// Reason: kernels that oneDNN generates use the stack pointer as a general register. A handler that interrupts them
/// would write its frame wherever it points to, into the heap, unless it has its own stack (SA_ONSTACK). Any program
/// that trains nets on the CPU and handles signals needs this call or an equivalent.
/// @throws Error if the system refuses
void take_stop_signals_in_own_thread();

}  // namespace terngrad
