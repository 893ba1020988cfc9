#include "kernels/tensor/memory_update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/memory_update.h"
#include "kernels/tensor/cpu/widened_chunk.h"
#include "kernels/tensor/cuda/memory_update.h"

namespace terngrad {

void compensate(const CompensateTask& task, float decay, float weight, Stream& stream) {
  require_aligned_elements(task.gradient, task.type, "compensate");
  if (stream.device().is_cuda()) return cuda::compensate(task, decay, weight, stream);
  parallel_for(stream.num_threads(), task.count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::WidenedChunk widened;
    for (std::int64_t at = begin; at < end; at += kChunkElements) {
      const std::int64_t count = std::min(kChunkElements, end - at);
      const float* gradient = widened.of(task.gradient, task.type, at, count);
      cpu::compensate(decay, task.state + at, weight, gradient, task.compensated + at, count);
    }
  });
}

void accumulate(const AccumulateTask& task, float momentum, bool nesterov, Stream& stream) {
  require_aligned_elements(task.gradient, task.type, "accumulate");
  if (stream.device().is_cuda()) return cuda::accumulate(task, momentum, nesterov, stream);
  parallel_for(stream.num_threads(), task.count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::WidenedChunk widened;
    for (std::int64_t at = begin; at < end; at += kChunkElements) {
      const std::int64_t count = std::min(kChunkElements, end - at);
      const float* gradient = widened.of(task.gradient, task.type, at, count);
      const float* const residual = task.residual == nullptr ? nullptr : task.residual + at;
      cpu::accumulate(momentum, nesterov, residual, task.velocity + at, gradient, task.next_velocity + at,
                      task.compensated + at, count);
    }
  });
}

void update_memory(const MemoryUpdateTask& task, Stream& stream) {
  if (stream.device().is_cuda()) return cuda::update_memory(task, stream);
  if (task.skip != nullptr && *task.skip != 0) return;
  if (task.flag != nullptr && std::isnan(*task.flag)) return;
  parallel_for(stream.num_threads(), task.count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    if (task.sent == nullptr) {
      std::copy(task.encoded + begin, task.encoded + end, task.kept + begin);
      return;
    }
    const auto run = task.rule == MemoryUpdateTask::Rule::kMask  ? cpu::mask
                     : task.rule == MemoryUpdateTask::Rule::kAdd ? cpu::add
                                                                 : cpu::subtract;
    run(task.encoded + begin, task.sent + begin, task.kept + begin, end - begin);
  });
}

}  // namespace terngrad
