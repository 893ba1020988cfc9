// What the rest of kernels/ needs of the CUDA runtime, without its headers. A build without CUDA has stub.cpp instead.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// 0 on any error: no driver, no device.
int num_devices();
/// Why there are not more; empty if all can be used.
std::string device_unavailable_reason();

/// Makes a device current in this thread. @returns the one before, -1 if that was the same
int make_current(int device);
/// Makes the device before current again if this process has a context there; else the thread keeps what it has.
void make_current_again(int previous) noexcept;

/// @throws DeviceError if there is not enough memory. Memory is uninitialised and aligned to 256 bytes.
void* allocate(int device, std::size_t bytes);
/// Tolerates a runtime that is already unloading.
void deallocate(int device, void* memory) noexcept;

/// Page-locked host memory and its owner; uninitialised. @throws DeviceError if there is not enough
std::shared_ptr<void> allocate_pinned(int device, std::size_t bytes);

/// A non-blocking cudaStream_t and its owner.
std::shared_ptr<void> make_stream(int device);
void synchronize(const Stream& stream);
/// Whether all work submitted so far has run. @throws DeviceError for this or an earlier failure
bool is_done(const Stream& stream);
/// Whether the stream is being captured into a graph: copies from the host and allocations are errors then.
bool is_capturing(const Stream& stream);

/// Asynchronous copy between any two of host and device memory. The host's memory may be reused at once if it is the
/// source; as the destination it is valid after synchronize().
void copy(void* to, const void* from, std::size_t bytes, const Stream& stream);
void fill_zero(void* memory, std::size_t bytes, const Stream& stream);

/// An event that takes the time, and its owner.
std::shared_ptr<void> make_event(int device);
void record(void* event, const Stream& stream);
/// An event that takes no time, for streams that wait for each other.
std::shared_ptr<void> make_meeting_point(int device);
/// What the stream is given from now on runs after what `event` was recorded behind; the host does not wait.
void wait_for(void* event, const Stream& stream);
/// Waits for `end`.
double seconds_between(void* begin, void* end);

void begin_capture(const Stream& stream);
/// Waits for the stream. @returns the graph, uploaded, so that launches allocate nothing, and its owner
std::shared_ptr<void> end_capture(const Stream& stream);
void abandon_capture(const Stream& stream) noexcept;
void launch_graph(void* executable, const Stream& stream);

/// The model of a GPU, e.g. "NVIDIA H200", and the versions of driver and runtime, e.g. "driver 13.0, runtime 13.0".
std::string device_name(int device);
/// In 32 hexadecimal digits.
std::string device_uuid(int device);
std::string versions();

}  // namespace terngrad::cuda
