#include "kernels/scaler.h"

#include <bit>
#include <vector>

#include "kernels/common/local_scaler.h"
#include "kernels/cuda/statistics.h"
#include "kernels/errors.h"

namespace terngrad {

float canonical_nan() { return std::bit_cast<float>(0x7fc00000u); }

double standard_deviation(const Statistics& statistics, std::int64_t count) {
  return common::standard_deviation(statistics, count);
}

float local_scaler(const Statistics& statistics, std::int64_t count, double clip_factor, ScalerRule rule) {
  return common::local_scaler(statistics, statistics.max_abs(), canonical_nan(), count, clip_factor, rule);
}

void local_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream) {
  const std::span<const Slice> slices = plan.slices();
  TERNGRAD_REQUIRE(out.size() == workers.size() * slices.size(),
                   "[scaler] out must hold one scaler per worker and slice: need ", workers.size() * slices.size(),
                   ", have ", out.size());
  if (stream.device().is_cuda()) {
    return plan.on_cuda(stream).local_scalers(workers, clip_factor, rule, out.data(), stream);
  }
  std::vector<Statistics> statistics(slices.size());
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    plan.run(workers[worker], statistics, stream);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      out[worker * slices.size() + i] = local_scaler(statistics[i], slices[i].count, clip_factor, rule);
    }
  }
}

}  // namespace terngrad
