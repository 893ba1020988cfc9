// Interface to the CUDA runtime that does not need its headers. Builds without CUDA link stub.cpp instead.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Number of usable GPUs; 0 on any error (no driver, no device).
int num_devices();
/// Reason why num_devices() is not larger; empty if all GPUs can be used.
std::string device_unavailable_reason();

/// Makes a device current in this thread. @returns the previous device, or -1 if it was the same
int make_current(int device);
/// Restores the previous device if this process has a context on it; otherwise leaves the current one.
void make_current_again(int previous) noexcept;

/// Allocates uninitialized memory, aligned to 256 bytes. @throws DeviceError if there is not enough
void* allocate(int device, std::size_t bytes);
/// Ignores errors: the runtime may already be unloading.
void deallocate(int device, void* memory) noexcept;

/// Uninitialized page-locked host memory, freed with the last pointer. @throws DeviceError if there is not enough
std::shared_ptr<void> allocate_pinned(int device, std::size_t bytes);

/// A non-blocking cudaStream_t, destroyed with the last pointer.
std::shared_ptr<void> make_stream(int device);
void synchronize(const Stream& stream);
/// True if all work submitted so far has finished; does not wait. @throws DeviceError for this or an earlier failure
bool is_done(const Stream& stream);
/// True if the stream is being captured into a graph; copies from the host and allocations then fail.
bool is_capturing(const Stream& stream);

/// Asynchronous copy between host and device memory in any combination. A host source may be reused once the call
/// returns; a host destination is valid after synchronize().
void copy(void* to, const void* from, std::size_t bytes, const Stream& stream);
void fill_zero(void* memory, std::size_t bytes, const Stream& stream);

/// An event with timing, destroyed with the last pointer.
std::shared_ptr<void> make_event(int device);
void record(void* event, const Stream& stream);
/// An event without timing, for streams that wait for each other.
std::shared_ptr<void> make_meeting_point(int device);
/// Work submitted to the stream from now on runs after the point recorded in `event`. Asynchronous.
void wait_for(void* event, const Stream& stream);
/// Seconds between two timing events; waits for `end`.
double seconds_between(void* begin, void* end);

void begin_capture(const Stream& stream);
/// Waits for the stream. @returns the executable graph, already uploaded, so that launches allocate nothing
std::shared_ptr<void> end_capture(const Stream& stream);
/// Ends a failed capture and discards its graph; ignores errors.
void abandon_capture(const Stream& stream) noexcept;
void launch_graph(void* executable, const Stream& stream);

/// Model of a GPU, e.g. "NVIDIA H200". versions(): driver and runtime, e.g. "driver 13.0, runtime 13.0".
std::string device_name(int device);
/// UUID of a GPU in 32 hexadecimal digits.
std::string device_uuid(int device);
std::string versions();

}  // namespace terngrad::cuda
