// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/runtime/cuda/not_built.h"
#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/cuda/uploads.h"

namespace terngrad::cuda {

int num_devices() { return 0; }
std::string device_unavailable_reason() { return "this build has no CUDA backend (TERNGRAD_CUDA)"; }
int make_current(int) { not_built("DeviceGuard"); }
void make_current_again(int) noexcept {}
void* allocate(int, std::size_t) { not_built("Buffer"); }
void deallocate(int, void*) noexcept {}
std::shared_ptr<void> allocate_pinned(int, std::size_t) { not_built("PinnedBuffer"); }
std::shared_ptr<void> make_stream(int) { not_built("Stream"); }
void synchronize(const Stream&) { not_built("Stream"); }
bool is_done(const Stream&) { not_built("Stream"); }
bool is_capturing(const Stream&) { not_built("Stream"); }
void copy(void*, const void*, std::size_t, const Stream&) { not_built("copy"); }
void fill_zero(void*, std::size_t, const Stream&) { not_built("fill_zero"); }
std::shared_ptr<void> make_event(int) { not_built("StreamTimer"); }
void record(void*, const Stream&) { not_built("StreamTimer"); }
double seconds_between(void*, void*) { not_built("StreamTimer"); }
std::shared_ptr<void> make_meeting_point(int) { not_built("StreamFork"); }
void wait_for(void*, const Stream&) { not_built("StreamFork"); }
void upload(void*, const void*, std::size_t, const Stream&) { not_built("upload"); }
bool has_come(void*) { not_built("StreamEvent"); }
void wait_until_come(void*) { not_built("StreamEvent"); }
void begin_capture(const Stream&) { not_built("CapturedGraph"); }
std::shared_ptr<void> end_capture(const Stream&) { not_built("CapturedGraph"); }
void abandon_capture(const Stream&) noexcept {}
void launch_graph(void*, const Stream&) { not_built("CapturedGraph"); }
std::string device_name(int) { not_built("Device"); }
std::string device_uuid(int) { not_built("Device"); }
std::string versions() { not_built("Device"); }

}  // namespace terngrad::cuda
