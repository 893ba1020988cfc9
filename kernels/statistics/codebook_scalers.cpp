#include "kernels/statistics/codebook_scalers.h"

#include <array>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/common/codebook_scaler.h"
#include "kernels/statistics/cuda/codebook_scalers.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {
namespace {

common::CodebookRun run_on_cpu(const float* values, std::int64_t count, const Codebook& codebook, CodebookScale scale) {
  const Statistics statistics = cpu::chunk_statistics(values, count);
  const float unit = local_scaler(statistics, count, codebook.unit, ScalerRule::kRms);
  if (!(unit > 0)) return common::codebook_run(unit, 0, 0, scale, canonical_nan());
  std::array<float, kChunkElements> room;
  cpu::nearest_levels(values, count, codebook, unit, /*is_product=*/true, room.data());
  const double products = cpu::chunk_statistics(room.data(), count).sum;
  double squares = statistics.sum_squares;
  if (scale == CodebookScale::kLeast) {
    cpu::nearest_levels(values, count, codebook, unit, /*is_product=*/false, room.data());
    squares = cpu::chunk_statistics(room.data(), count).sum_squares;
  }
  return common::codebook_run(unit, products, squares, scale, canonical_nan());
}

}  // namespace

CodebookScalerPlan::CodebookScalerPlan(std::vector<Slice> runs, const Codebook& codebook, CodebookScale scale,
                                       Device device)
    : runs_(std::move(runs)), codebook_(codebook), scale_(scale), device_(device) {
  for (const Slice& run : runs_) {
    TERNGRAD_REQUIRE(run.count <= kChunkElements, "[codebook_scalers] a run has at most ", kChunkElements,
                     " elements, got ", run.count);
  }
  if (device.is_cuda()) cuda_ = cuda::make_codebook_scaler_runner(runs_, codebook, scale, device);
}

void CodebookScalerPlan::run(std::span<const TensorTable> workers, std::span<float> units, std::span<float> scalers,
                             Stream& stream) {
  const std::size_t total = workers.size() * runs_.size();
  TERNGRAD_REQUIRE(units.size() == total && scalers.size() == total,
                   "[codebook_scalers] outputs must hold one number per worker and run: need ", total, ", have ",
                   units.size(), " and ", scalers.size());
  TERNGRAD_REQUIRE(stream.device() == device_, "[codebook_scalers] the plan is for ", device_.name(),
                   ", the stream for ", stream.device().name());
  for (const TensorTable& tensors : workers) {
    TERNGRAD_REQUIRE(tensors.type() == ElementType::kFloat32, "[codebook_scalers] elements must be float32, got ",
                     element_type_name(tensors.type()));
  }
  if (device_.is_cuda()) return cuda_->run(workers, units.data(), scalers.data(), stream);
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(total), 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const Slice& slice = runs_[i % runs_.size()];
      const auto* values = static_cast<const float*>(workers[i / runs_.size()].data(slice));
      const common::CodebookRun run = run_on_cpu(values, slice.count, codebook_, scale_);
      units[i] = run.unit;
      scalers[i] = run.scaler;
    }
  });
}

}  // namespace terngrad
