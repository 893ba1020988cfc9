// Bookkeeping of a training step on a GPU, in one warp.
#include "trainers/loop/cuda/step_ring.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kWarp = 32;  // smallest block size

__global__ void __launch_bounds__(kWarp) begin_step_kernel(const StepRingMemory ring) {
  if (threadIdx.x != 0) return;
  *ring.input = ring.inputs[*ring.step % ring.num_slots];
  *ring.counts = {};
}

__global__ void __launch_bounds__(kWarp)
    end_step_kernel(const StepRingMemory ring, const WorkerLoss* __restrict__ losses,
                    const std::uint32_t* __restrict__ skip) {
  const std::uint64_t step = *ring.step;
  const std::uint64_t slot = step % ring.num_slots;
  const auto num_workers = static_cast<unsigned>(ring.num_workers);
  for (unsigned worker = threadIdx.x; worker < num_workers; worker += kWarp) {
    ring.workers[slot * num_workers + worker] = {losses[worker].entropy_loss, losses[worker].num_correct};
  }
  __syncthreads();  // all threads have read the step number
  if (threadIdx.x != 0) return;
  StepRecord record{};
  record.counts = *ring.counts;
  record.skipped = *skip;
  ring.records[slot] = record;
  *ring.step = step + 1;
}

struct IsNotZero {
  const std::uint32_t* condition;
  __device__ bool operator()() const { return *condition != 0; }
};

struct Copy {
  __device__ float operator()(float value) const { return value; }
};

}  // namespace

void begin_step(const StepRingMemory& ring, const Stream& stream) {
  launch(begin_step_kernel, dim3(1), dim3(kWarp), 0, stream, ring);
}

void end_step(const StepRingMemory& ring, const WorkerLoss* losses, const std::uint32_t* skip, const Stream& stream) {
  launch(end_step_kernel, dim3(1), dim3(kWarp), 0, stream, ring, losses, skip);
}

void copy_if(const std::uint32_t* condition, const float* from, float* to, std::int64_t count, const Stream& stream) {
  transform_if(static_cast<std::size_t>(count), stream, IsNotZero{condition}, Copy(), to, from);
}

}  // namespace terngrad::cuda
