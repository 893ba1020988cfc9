// Codebook scalers on a GPU: one warp per run, which reads the elements twice, the second time from the caches.
#include "kernels/statistics/cuda/codebook_scalers.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/statistics/common/codebook_scaler.h"
#include "kernels/statistics/cuda/statistics_chunk.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr int kVectorsInFlight = 8;

/// Address and length of one run of a worker.
struct Source {
  const float* values;
  std::int64_t count;
};

/// Sums of a thread: products, and squares of levels for kLeast.
template <int kMagnitudes, CodebookScale kScale>
struct LevelSums {
  const Codebook& codebook;
  float unit;
  double products[4] = {0, 0, 0, 0};
  double squares[4] = {0, 0, 0, 0};

  __device__ void take(int lane, float g) {
    const float magnitude = fabsf(g);
    float level = codebook.values[0];
#pragma unroll
    for (int k = 1; k < kMagnitudes; ++k) {
      level = magnitude >= codebook.thresholds[k - 1] * unit ? codebook.values[k] : level;
    }
    products[lane] += static_cast<double>(magnitude * level);
    if constexpr (kScale == CodebookScale::kLeast) {
      const auto wide = static_cast<double>(level);
      squares[lane] = __fma_rn(wide, wide, squares[lane]);  // the product is exact, so fusing changes no bit
    }
  }
};

template <int kMagnitudes, CodebookScale kScale>
__global__ void __launch_bounds__(kThreads)
    codebook_scalers_kernel(const Source* __restrict__ sources, std::int64_t num_sources, const Codebook codebook,
                            float* __restrict__ units, float* __restrict__ scalers) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_sources) return;  // whole warps
  const Source source = sources[index];
  const float nan = __uint_as_float(0x7fc00000u);
  const Statistics statistics = warp_chunk_statistics<kVectorsInFlight>(source.values, source.count);
  const float unit = scaler_of(statistics, source.count, codebook.unit, ScalerRule::kRms);
  LevelSums<kMagnitudes, kScale> sums = {codebook, unit};
  if (unit > 0) accumulate_chunk<kVectorsInFlight>(source.values, source.count, sums);  // whole warps
  const double products = combine_rows_and_lanes(sums.products);
  const double squares =
      kScale == CodebookScale::kLeast ? combine_rows_and_lanes(sums.squares) : statistics.sum_squares;
  const common::CodebookRun run = common::codebook_run(unit, products, squares, kScale, nan);
  if (threadIdx.x % kWarpThreads == 0) {
    units[index] = run.unit;
    scalers[index] = run.scaler;
  }
}

using Kernel = void (*)(const Source*, std::int64_t, Codebook, float*, float*);

template <CodebookScale kScale>
Kernel kernel_for(int num_magnitudes) {
  switch (num_magnitudes) {
    case 1:
      return codebook_scalers_kernel<1, kScale>;
    case 2:
      return codebook_scalers_kernel<2, kScale>;
    case 4:
      return codebook_scalers_kernel<4, kScale>;
    default:
      return codebook_scalers_kernel<8, kScale>;
  }
}

class Runner final : public CodebookScalerRunner {
 public:
  Runner(std::span<const Slice> runs, const Codebook& codebook, CodebookScale scale, const Device& device)
      : runs_(runs.begin(), runs.end()),
        codebook_(codebook),
        kernel_((scale == CodebookScale::kUnbiased ? kernel_for<CodebookScale::kUnbiased>
                                                   : kernel_for<CodebookScale::kLeast>)(codebook.num_magnitudes)),
        sources_table_(device) {}

  void run(std::span<const TensorTable> workers, float* units, float* scalers, Stream& stream) override {
    sources_.clear();
    for (const TensorTable& tensors : workers) {
      for (const Slice& run : runs_) sources_.push_back({static_cast<const float*>(tensors.data(run)), run.count});
    }
    const auto num_sources = static_cast<std::int64_t>(sources_.size());
    launch(kernel_, dim3(num_blocks_for(num_sources, kWarps)), dim3(kThreads), 0, stream,
           sources_table_.on_device(sources_, stream), num_sources, codebook_, units, scalers);
  }

 private:
  std::vector<Slice> runs_;
  Codebook codebook_;
  Kernel kernel_;
  std::vector<Source> sources_;
  UploadedTable<Source> sources_table_;
};

}  // namespace

std::shared_ptr<CodebookScalerRunner> make_codebook_scaler_runner(std::span<const Slice> runs, const Codebook& codebook,
                                                                  CodebookScale scale, const Device& device) {
  return std::make_shared<Runner>(runs, codebook, scale, device);
}

}  // namespace terngrad::cuda
