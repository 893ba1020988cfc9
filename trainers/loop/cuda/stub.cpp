// Stubs of the trainers' kernels for builds without CUDA, where no device exists to call them with.
#include "kernels/runtime/errors.h"
#include "trainers/loop/cuda/step_ring.h"
#include "trainers/optim/cuda/worker_gradients.h"

namespace terngrad::cuda {
namespace {

[[noreturn]] void not_built() {
  TERNGRAD_THROW(NotSupported, "[DeviceTrainer] this build has no CUDA backend (TERNGRAD_CUDA)");
}

}  // namespace

void begin_step(const StepRingMemory&, const Stream&) { not_built(); }
void end_step(const StepRingMemory&, const WorkerLoss*, const std::uint32_t*, const Stream&) { not_built(); }
void copy_if(const std::uint32_t*, const float*, float*, std::int64_t, const Stream&) { not_built(); }
void zero_nonfinite(WorkerBuffers<float>, int, std::int64_t, TransformCounts*, const Stream&) { not_built(); }
void add_weight_decay(WorkerBuffers<float>, int, const float*, float, const std::uint8_t*, std::int64_t,
                      const Stream&) {
  not_built();
}
void clip_factors(const Statistics*, int, int, double, bool, float*, TransformCounts*, const Stream&) { not_built(); }
void scale_workers(WorkerBuffers<float>, int, const float*, std::int64_t, const Stream&) { not_built(); }

}  // namespace terngrad::cuda
