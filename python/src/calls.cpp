#include "python/src/calls.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace terngrad::python {
namespace {

std::atomic<int> num_calls{0};
std::atomic<bool> is_ending{false};
std::thread::id ending_thread;  // the main thread, once is_ending

}  // namespace

UnlockedCall::UnlockedCall() {
  if (is_ending && std::this_thread::get_id() != ending_thread) {
    // As Python does with threads that want the GIL during finalization: block until the process ends.
    PyEval_SaveThread();
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  ++num_calls;
  state_ = PyEval_SaveThread();
}

UnlockedCall::~UnlockedCall() {
  PyEval_RestoreThread(state_);
  --num_calls;
}

void wait_for_calls(double seconds) {
  ending_thread = std::this_thread::get_id();
  is_ending = true;
  const nanobind::gil_scoped_release released;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (num_calls > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace terngrad::python
