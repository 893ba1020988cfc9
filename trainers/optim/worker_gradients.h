// WorkerGradients, and the operations of gradient transforms on them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/runtime/device.h"
#include "nets/worker_buffers.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class Layout;
class TensorTable;
struct Statistics;

/// The gradients of a device's workers: flat buffers at a constant stride in one allocation, with zeroed padding.
struct WorkerGradients {
  WorkerBuffers<float> buffers;
  int num_workers = 0;
  int first_worker = 0;  // global number of the first of them
  WorkerGradients of_worker(int worker) const {
    return {{buffers.of(worker), buffers.stride}, 1, first_worker + worker};
  }
};

/// @returns one table of tensors per worker
std::vector<TensorTable> tables_of(const Layout& layout, const WorkerGradients& gradients);

// On a GPU stream all pointers are device memory and the calls are asynchronous. Results are bit-equal on every
// backend, for any number of threads and any division into calls. `count` is a multiple of kFlatAlignment.

/// Sets NaN and infinite values among the first `count` elements of each worker to 0, and counts them.
void zero_nonfinite(WorkerBuffers<float> gradients, int num_workers, std::int64_t count, TransformCounts* counts,
                    Stream& stream);

/// g = fl(g + fl(decay * w)) in the cache lines of kFlatAlignment elements that `is_decayed` marks.
/// @param is_decayed  [count / kFlatAlignment]
void add_weight_decay(WorkerBuffers<float> gradients, int num_workers, const float* parameters, float decay,
                      const std::uint8_t* is_decayed, std::int64_t count, Stream& stream);

/// factors[w] = fl(max_norm / ||g_w||) if ||g_w|| > max_norm, which is counted, else 1; see make_clip_by_global_norm.
/// @param statistics        [num_workers][num_tensors] statistics of whole tensors
/// @param zeroes_nonfinite  tensors with NaN or infinity add nothing to the norm; else they leave their worker's
///                          gradient as it is
/// @param factors           [num_workers] out
void clip_factors(const Statistics* statistics, int num_workers, int num_tensors, double max_norm,
                  bool zeroes_nonfinite, float* factors, TransformCounts* counts, Stream& stream);

/// g_w = fl(factors[w] * g_w); a factor of 1 keeps all bits.
void scale_workers(WorkerBuffers<float> gradients, int num_workers, const float* factors, std::int64_t count,
                   Stream& stream);

}  // namespace terngrad
