#include "kernels/runtime/stream_fork.h"

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

StreamFork::StreamFork(const Stream& stream, int num_branches) : stream_(stream) {
  TERNGRAD_REQUIRE(num_branches >= 1, "[StreamFork] needs at least one branch, got ", num_branches);
  if (!stream.device().is_cuda()) TERNGRAD_THROW(NotSupported, "[StreamFork] the CPU's streams have no branches");
  const Device device = stream.device();
  begin_ = cuda::make_meeting_point(device.index());
  for (int index = 0; index < num_branches; ++index) {
    branches_.push_back({Stream(device), cuda::make_meeting_point(device.index())});
  }
}

void StreamFork::begin() {
  cuda::record(begin_.get(), stream_);
  for (const Branch& branch : branches_) cuda::wait_for(begin_.get(), branch.stream);
}

void StreamFork::join() {
  for (const Branch& branch : branches_) {
    cuda::record(branch.end.get(), branch.stream);
    cuda::wait_for(branch.end.get(), stream_);
  }
}

}  // namespace terngrad
