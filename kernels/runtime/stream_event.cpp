#include "kernels/runtime/stream_event.h"

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/cuda/uploads.h"

namespace terngrad {

StreamEvent::StreamEvent(const Device& device)
    : event_(device.is_cuda() ? cuda::make_meeting_point(device.index()) : nullptr) {}

void StreamEvent::record(const Stream& stream) {
  if (event_ != nullptr) cuda::record(event_.get(), stream);
}

void StreamEvent::hold_back(const Stream& stream) const {
  if (event_ != nullptr) cuda::wait_for(event_.get(), stream);
}

bool StreamEvent::has_come() const { return event_ == nullptr || cuda::has_come(event_.get()); }

void StreamEvent::wait() const {
  if (event_ != nullptr) cuda::wait_until_come(event_.get());
}

}  // namespace terngrad
