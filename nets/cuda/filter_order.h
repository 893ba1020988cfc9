// Transposition of convolution weights between the net's order (outputs fastest) and cuDNN's (outputs slowest).
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

// A net's weights [kernel, kernel, in / groups, out] are a matrix [rows, columns] with rows = kernel * kernel * in /
// groups and columns = out; cuDNN's filters [out, kernel, kernel, in / groups] are its transpose. Pointers are device
// memory, inputs and outputs must not overlap. Functions submit work to the stream and neither allocate nor wait.
// @throws InvalidArgument for more tiles of 32 x 32 than a launch can have; DeviceError

/// filters[c, r] = weights[r, c].
/// @param weights  [rows, columns]
/// @param filters  [columns, rows] out
void to_filters(const float* weights, float* filters, std::int64_t rows, std::int64_t columns, const Stream& stream);

/// gradients.of(w)[r, c] = filter_gradients[w, c, r], for every worker.
/// @param filter_gradients  [num_workers, columns, rows]
/// @param gradients         out, [rows, columns] per worker; memory between them is not written
void from_filters(const float* filter_gradients, std::int64_t rows, std::int64_t columns, int num_workers,
                  WorkerBuffers<float> gradients, const Stream& stream);

}  // namespace terngrad::cuda
