// Scaler combination on a GPU: one thread per scaler; one block per segment and row.
#include "kernels/statistics/cuda/scaler_sharing.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/statistics/common/scaler_sharing.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 128;
/// The 64-bit type of atomicAdd and atomicMax.
using Word = unsigned long long;
static_assert(sizeof(Word) == sizeof(std::uint64_t), "reports are updated as words of 64 bits");

__global__ void __launch_bounds__(kThreads) share_scalers_kernel(const ScalerSharingTask task) {
  const std::int64_t s = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (s >= task.num_scalers) return;
  int first = 0;
  const int num_flagged = common::share_one(task, s, first);
  if (num_flagged == 0) return;
  if (task.skip != nullptr) atomicOr(task.skip, 1u);
  if (task.stop_latched != nullptr && *task.stop_latched != 0) return;
  const ScalerPlace place = task.places[s];
  const Word at = Word{place.segment} * static_cast<Word>(task.num_workers) + static_cast<Word>(first);
  if (place.is_first != 0) atomicAdd(reinterpret_cast<Word*>(&task.report->count), static_cast<Word>(num_flagged));
  atomicMax(reinterpret_cast<Word*>(&task.report->inverted_first), ~at);
}

__global__ void __launch_bounds__(kThreads)
    flag_whole_segments_kernel(float* scalers, const std::int64_t* __restrict__ first_scaler,
                               std::int64_t num_scalers) {
  float* row = scalers + std::int64_t{blockIdx.y} * num_scalers;
  const std::int64_t begin = first_scaler[blockIdx.x];
  const std::int64_t end = first_scaler[blockIdx.x + 1];
  int flagged = 0;
  for (std::int64_t s = begin + threadIdx.x; s < end; s += kThreads) flagged |= common::is_flag(row[s]) ? 1 : 0;
  if (__syncthreads_or(flagged) == 0) return;
  for (std::int64_t s = begin + threadIdx.x; s < end; s += kThreads) row[s] = __uint_as_float(0x7fc00000u);
}

}  // namespace

void combine_scalers(const ScalerSharingTask& task, const Stream& stream) {
  launch(share_scalers_kernel, dim3(num_blocks_for(task.num_scalers, kThreads)), dim3(kThreads), 0, stream, task);
}

void flag_whole_segments(float* scalers, std::int64_t num_rows, const std::int64_t* first_scaler,
                         std::int64_t num_segments, std::int64_t num_scalers, const Stream& stream) {
  launch(flag_whole_segments_kernel, dim3(static_cast<unsigned>(num_segments), static_cast<unsigned>(num_rows)),
         dim3(kThreads), 0, stream, scalers, first_scaler, num_scalers);
}

}  // namespace terngrad::cuda
