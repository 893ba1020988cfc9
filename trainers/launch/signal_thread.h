// A thread of its own for the signals that stop a command.
#pragma once

namespace terngrad {

/// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread, and so in all that are made by it from here on, and starts
/// a thread in which they are as they were. What these signals do to the process, be it a handler or its end, then
/// happens in that thread. To be called by a program before it makes any thread; calling it again does nothing.
///
/// Kernels that oneDNN generates use the stack pointer as a register like any other. What a handler needs would be
/// written wherever it points to at the moment, into the process's heap, so no handler may interrupt a thread that
/// computes unless it has its own stack (SA_ONSTACK). A program of one's own that trains nets on the CPU and
/// handles signals needs this call, or its like.
/// @throws Error if the system refuses
void take_stop_signals_in_own_thread();

}  // namespace terngrad
