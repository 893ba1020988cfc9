#include "kernels/runtime/stream_timer.h"

#include <chrono>

#include "kernels/runtime/cuda/runtime.h"

namespace terngrad {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

StreamTimer::StreamTimer(const Device& device) : device_(device) {
  if (!device.is_cuda()) return;
  begin_event_ = cuda::make_event(device.index());
  end_event_ = cuda::make_event(device.index());
}

void StreamTimer::start(const Stream& stream) {
  if (device_.is_cuda()) return cuda::record(begin_event_.get(), stream);
  begin_ = now();
}

void StreamTimer::stop(const Stream& stream) {
  if (device_.is_cuda()) return cuda::record(end_event_.get(), stream);
  end_ = now();
}

double StreamTimer::seconds() const {
  return device_.is_cuda() ? cuda::seconds_between(begin_event_.get(), end_event_.get()) : end_ - begin_;
}

}  // namespace terngrad
