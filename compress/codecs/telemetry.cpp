#include "compress/codecs/telemetry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/runtime/errors.h"

namespace terngrad {

TensorTelemetry compare_with_sent(std::span<const float> gradient, std::span<const float> sent, double scaler) {
  TERNGRAD_REQUIRE(gradient.size() == sent.size(), "[telemetry] lengths differ: ", gradient.size(), " and ",
                   sent.size());
  TensorTelemetry result;
  double squares = 0;
  double clipped_squares = 0;
  double error_squares = 0;
  std::int64_t zeros = 0;
  std::int64_t clipped = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto g = static_cast<double>(gradient[i]);
    const auto q = static_cast<double>(sent[i]);
    const double magnitude = std::fabs(g);
    const double cut = scaler > 0 ? std::min(magnitude, scaler) : magnitude;
    squares += g * g;
    clipped_squares += cut * cut;
    error_squares += (g - q) * (g - q);
    zeros += q == 0;
    clipped += magnitude > cut;
    result.max_abs = std::max(result.max_abs, magnitude);
  }
  const auto n = static_cast<double>(std::max<std::size_t>(gradient.size(), 1));
  result.norm = std::sqrt(squares);
  result.scaler = scaler;
  result.zero_fraction = static_cast<double>(zeros) / n;
  result.clip_fraction = static_cast<double>(clipped) / n;
  result.kept_norm = squares > 0 ? std::sqrt(clipped_squares / squares) : 1;
  result.snr_db =
      error_squares > 0 ? 10 * std::log10(squares / error_squares) : std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace terngrad
