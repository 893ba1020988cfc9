// The order of convolution weights: a net has outputs fastest, cuDNN has them slowest.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

// A net's weights [kernel, kernel, in / groups, out] are a matrix [rows, columns] of rows = kernel * kernel * in /
// groups and columns = out; cuDNN's filters [out, kernel, kernel, in / groups] are its transpose. Pointers are device
// memory, inputs and outputs do not overlap. Work is submitted to the stream; nothing is allocated or waited for.
// @throws InvalidArgument for more tiles of 32 x 32 than a launch can hold; DeviceError

/// filters[c, r] = weights[r, c].
/// @param weights  [rows, columns]
/// @param filters  [columns, rows] out
void to_filters(const float* weights, float* filters, std::int64_t rows, std::int64_t columns, const Stream& stream);

/// gradients.of(w)[r, c] = filter_gradients[w, c, r], for every worker.
/// @param filter_gradients  [num_workers, columns, rows]
/// @param gradients         [rows, columns] of each worker, out; what lies between them is left as it is
void from_filters(const float* filter_gradients, std::int64_t rows, std::int64_t columns, int num_workers,
                  WorkerBuffers<float> gradients, const Stream& stream);

}  // namespace terngrad::cuda
