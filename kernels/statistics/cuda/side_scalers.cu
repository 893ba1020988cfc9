// Scalers of both sides on a GPU: one warp per chunk, then one warp per slice.
#include "kernels/statistics/cuda/side_scalers.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/statistics/common/side_scalers.h"
#include "kernels/statistics/cuda/statistics.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr std::uint32_t kSign = 0x80000000u;

/// Address and length of one chunk of a worker's slice.
struct Source {
  const void* values;
  std::int64_t count;
};

/// Range of a slice's chunks in the list of a worker's chunks.
struct ChunkRange {
  std::int64_t first;
  std::int64_t num_chunks;
  std::int64_t count;  // elements
};

/// Both maxima over a warp; every lane gets them.
__device__ SideMax warp_side_max(const SideMax& max) { return {warp_max(max.positive), warp_max(max.negative)}; }

/// One warp per chunk of any worker. Maxima are integers, so their order does not matter.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    chunk_side_max_kernel(const Source* __restrict__ sources, std::int64_t num_sources, SideMax* __restrict__ maxima) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_sources) return;  // whole warps
  const Source source = sources[index];
  const auto* values = static_cast<const Element*>(source.values);
  const unsigned lane = threadIdx.x % kWarpThreads;
  // As signed integers, positive elements exceed all negative ones; as unsigned integers, vice versa.
  int positive = 0;
  std::uint32_t negative = kSign;
#pragma unroll 8
  for (std::int64_t i = lane; i < source.count; i += kWarpThreads) {
    const std::uint32_t bits = __float_as_uint(widened(values[i]));
    positive = max(positive, static_cast<int>(bits));
    negative = max(negative, bits);
  }
  const SideMax found = warp_side_max({static_cast<std::uint32_t>(positive), negative & ~kSign});
  if (lane == 0) maxima[index] = found;
}

/// One warp per slice; blockIdx.y is the worker. @param statistics  null, or per worker and slice
__global__ void __launch_bounds__(kThreads)
    side_scalers_kernel(const SideMax* __restrict__ maxima, std::int64_t num_chunks,
                        const ChunkRange* __restrict__ ranges, std::int32_t num_slices,
                        const Statistics* __restrict__ statistics, double clip_factor, ScalerRule rule,
                        float* __restrict__ out) {
  const std::int64_t slice = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (slice >= num_slices) return;  // whole warps
  const ChunkRange range = ranges[slice];
  const SideMax* chunks = maxima + std::int64_t{blockIdx.y} * num_chunks + range.first;
  const unsigned lane = threadIdx.x % kWarpThreads;
  SideMax found = {0, 0};
  for (std::int64_t chunk = lane; chunk < range.num_chunks; chunk += kWarpThreads) {
    found = {max(found.positive, chunks[chunk].positive), max(found.negative, chunks[chunk].negative)};
  }
  found = warp_side_max(found);
  if (lane > 1) return;
  const std::int64_t at = std::int64_t{blockIdx.y} * num_slices + slice;
  const Statistics sums = statistics == nullptr ? Statistics{0, 0, 0, 0} : statistics[at];
  const std::uint32_t bits = lane == 0 ? found.positive : found.negative;
  out[2 * at + lane] = common::side_scaler(sums, bits, __uint_as_float(bits), __uint_as_float(0x7fc00000u), range.count,
                                           clip_factor, rule);
}

class Runner final : public SideScalerRunner {
 public:
  Runner(std::span<const Slice> slices, std::span<const Slice> chunks, std::span<const std::int64_t> first_chunk,
         const Device& device)
      : chunks_(chunks.begin(), chunks.end()),
        sources_table_(device),
        ranges_table_(device),
        maxima_(0, device),
        statistics_(0, device) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      ranges_.push_back({first_chunk[i], first_chunk[i + 1] - first_chunk[i], slices[i].count});
    }
  }

  void run(StatisticsPlan& statistics, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
           float* out, Stream& stream) override {
    if (workers.empty() || ranges_.empty()) return;
    sources_.clear();
    for (const TensorTable& tensors : workers) {
      for (const Slice& chunk : chunks_) sources_.push_back({tensors.data(chunk), chunk.count});
    }
    const auto num_sources = static_cast<std::int64_t>(sources_.size());
    const auto num_scaled = static_cast<std::int64_t>(workers.size() * ranges_.size());
    grow(maxima_, num_sources, stream);
    grow(statistics_, num_scaled, stream);
    const bool clips = clip_factor > 0;
    if (clips) statistics.on_cuda(stream).statistics(workers, statistics_.data(), stream, SummedAs::kValues);
    const Source* sources = sources_table_.on_device(sources_, stream);
    with_element(workers.front().type(), [&]<class Element>(Element) {
      launch(chunk_side_max_kernel<Element>, dim3(num_blocks_for(num_sources, kWarps)), dim3(kThreads), 0, stream,
             sources, num_sources, maxima_.data());
    });
    const auto num_slices = static_cast<std::int32_t>(ranges_.size());
    launch(side_scalers_kernel, dim3(num_blocks_for(num_slices, kWarps), static_cast<unsigned>(workers.size())),
           dim3(kThreads), 0, stream, maxima_.data(), static_cast<std::int64_t>(chunks_.size()),
           ranges_table_.on_device(ranges_, stream), num_slices, clips ? statistics_.data() : nullptr, clip_factor,
           rule, out);
  }

 private:
  std::vector<Slice> chunks_;
  std::vector<ChunkRange> ranges_;  // per slice
  std::vector<Source> sources_;
  UploadedTable<Source> sources_table_;
  UploadedTable<ChunkRange> ranges_table_;
  Buffer<SideMax> maxima_;         // one per worker and chunk
  Buffer<Statistics> statistics_;  // one per worker and slice
};

}  // namespace

std::shared_ptr<SideScalerRunner> make_side_scaler_runner(std::span<const Slice> slices, std::span<const Slice> chunks,
                                                          std::span<const std::int64_t> first_chunk,
                                                          const Device& device) {
  return std::make_shared<Runner>(slices, chunks, first_chunk, device);
}

}  // namespace terngrad::cuda
