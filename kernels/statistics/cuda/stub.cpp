// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/runtime/cuda/not_built.h"
#include "kernels/statistics/cuda/codebook_scalers.h"
#include "kernels/statistics/cuda/scaler_sharing.h"
#include "kernels/statistics/cuda/side_scalers.h"
#include "kernels/statistics/cuda/signed_statistics.h"
#include "kernels/statistics/cuda/statistics.h"

namespace terngrad::cuda {

std::shared_ptr<StatisticsRunner> make_statistics_runner(std::span<const Slice>, const Device&) {
  not_built("statistics");
}
std::shared_ptr<CodebookScalerRunner> make_codebook_scaler_runner(std::span<const Slice>, const Codebook&,
                                                                  CodebookScale, const Device&) {
  not_built("codebook_scalers");
}
std::shared_ptr<SideScalerRunner> make_side_scaler_runner(std::span<const Slice>, std::span<const Slice>,
                                                          std::span<const std::int64_t>, const Device&) {
  not_built("side_scalers");
}
std::shared_ptr<SignedStatisticsRunner> make_signed_statistics_runner(std::span<const SignedRun>, const Device&) {
  not_built("signed statistics");
}
void combine_scalers(const ScalerSharingTask&, const Stream&) { not_built("scaler_sharing"); }
void flag_whole_segments(float*, std::int64_t, const std::int64_t*, std::int64_t, std::int64_t, const Stream&) {
  not_built("scaler_sharing");
}

}  // namespace terngrad::cuda
