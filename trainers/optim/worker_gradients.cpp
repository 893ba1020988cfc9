#include "trainers/optim/worker_gradients.h"

#include "kernels/tensor/slice.h"
#include "trainers/optim/cpu/worker_gradients.h"
#include "trainers/optim/cuda/worker_gradients.h"

namespace terngrad {

std::vector<TensorTable> tables_of(const Layout& layout, const WorkerGradients& gradients) {
  std::vector<TensorTable> tables;
  tables.reserve(static_cast<std::size_t>(gradients.num_workers));
  for (int worker = 0; worker < gradients.num_workers; ++worker) {
    tables.emplace_back(layout, gradients.buffers.of(worker));
  }
  return tables;
}

void zero_nonfinite(WorkerBuffers<float> gradients, int num_workers, std::int64_t count, TransformCounts* counts,
                    Stream& stream) {
  if (stream.device().is_cuda()) return cuda::zero_nonfinite(gradients, num_workers, count, counts, stream);
  cpu::zero_nonfinite(gradients, num_workers, count, counts, stream);
}

void add_weight_decay(WorkerBuffers<float> gradients, int num_workers, const float* parameters, float decay,
                      const std::uint8_t* is_decayed, std::int64_t count, Stream& stream) {
  if (stream.device().is_cuda()) {
    return cuda::add_weight_decay(gradients, num_workers, parameters, decay, is_decayed, count, stream);
  }
  cpu::add_weight_decay(gradients, num_workers, parameters, decay, is_decayed, count, stream);
}

void clip_factors(const Statistics* statistics, int num_workers, int num_tensors, double max_norm,
                  bool zeroes_nonfinite, float* factors, TransformCounts* counts, Stream& stream) {
  if (stream.device().is_cuda()) {
    return cuda::clip_factors(statistics, num_workers, num_tensors, max_norm, zeroes_nonfinite, factors, counts,
                              stream);
  }
  cpu::clip_factors(statistics, num_workers, num_tensors, max_norm, zeroes_nonfinite, factors, counts, stream);
}

void scale_workers(WorkerBuffers<float> gradients, int num_workers, const float* factors, std::int64_t count,
                   Stream& stream) {
  if (stream.device().is_cuda()) return cuda::scale_workers(gradients, num_workers, factors, count, stream);
  cpu::scale_workers(gradients, num_workers, factors, count, stream);
}

}  // namespace terngrad
