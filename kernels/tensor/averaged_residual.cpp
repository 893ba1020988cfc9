#include "kernels/tensor/averaged_residual.h"

#include <algorithm>
#include <cmath>

#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/averaged_residual.h"
#include "kernels/tensor/cpu/widened_chunk.h"
#include "kernels/tensor/cuda/averaged_residual.h"

namespace terngrad {
namespace {

constexpr std::int64_t kGrain = kElementGrain / kResidualBlock;

bool resets(const ResidualAverage& average) { return average.reset != 0 && average.step.step % average.reset == 0; }

}  // namespace

void compensate(const AveragedCompensateTask& task, const ResidualAverage& average, Stream& stream) {
  require_aligned_elements(task.gradient, task.type, "compensate");
  if (stream.device().is_cuda()) return cuda::compensate(task, average, stream);
  const bool is_reset = resets(average);
  parallel_for(stream.num_threads(), residual_blocks(task.count), kGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::WidenedChunk widened;
    const std::int64_t last = std::min(end * kResidualBlock, task.count);
    for (std::int64_t at = begin * kResidualBlock; at < last; at += kChunkElements) {
      const std::int64_t count = std::min(kChunkElements, last - at);
      cpu::compensate_averaged(task.state + residual_words(at), is_reset,
                               widened.of(task.gradient, task.type, at, count), task.compensated + at, count);
    }
  });
}

void update_residual(const AveragedResidualTask& task, const ResidualAverage& average, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::update_residual(task, average, stream);
  if (task.skip != nullptr && *task.skip != 0) return;
  if (task.flag != nullptr && std::isnan(*task.flag)) return;
  const bool is_reset = resets(average);
  parallel_for(stream.num_threads(), residual_blocks(task.count), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * kResidualBlock;
    cpu::update_residual(task.encoded + at, task.sent + at, is_reset, average.decay, average.weight,
                         task.state + residual_words(at), std::min(end * kResidualBlock, task.count) - at);
  });
}

}  // namespace terngrad
