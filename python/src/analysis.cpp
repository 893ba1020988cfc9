// Statistics, ternarize and telemetry of one tensor.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "compress/plan/telemetry.h"
#include "compress/plan/tensor_analysis.h"
#include "kernels/runtime/errors.h"
#include "python/src/calls.h"
#include "python/src/module.h"
#include "python/src/tensors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

TensorElements elements_of(const Tensor& tensor) { return {tensor.data(), tensor.count(), tensor.type}; }

nb::dict to_dict(const TensorSummary& summary) {
  nb::dict result;
  result["count"] = summary.count;
  result["mean"] = summary.mean;
  result["std"] = summary.standard_deviation;
  result["max_abs"] = summary.max_abs;
  result["l1"] = summary.l1;
  result["l2"] = summary.l2;
  result["finite"] = summary.finite;
  return result;
}

/// Statistics of each block of `block` elements, or of the whole tensor if that is 0.
nb::list statistics(nb::handle object, std::int64_t block) {
  const Tensor tensor = read_tensor(object, "tensor");
  std::vector<TensorSummary> found;
  {
    const UnlockedCall unlocked;
    Stream stream(Device::cpu(), 1);
    found = summarize(elements_of(tensor), block, stream);
  }
  nb::list result;
  for (const TensorSummary& each : found) result.append(to_dict(each));
  return result;
}

using Codes = nb::ndarray<nb::numpy, std::int8_t, nb::ndim<1>>;

/// @returns (codes, scaler)
nb::tuple ternarize(nb::handle object, double clip_factor, std::optional<float> scaler, std::uint64_t seed,
                    std::uint64_t step, std::uint32_t worker, std::int64_t draw_offset) {
  const Tensor tensor = read_tensor(object, "tensor");
  auto codes = std::make_unique<std::vector<std::int8_t>>(static_cast<std::size_t>(tensor.count()));
  float s = 0;
  {
    const UnlockedCall unlocked;
    Stream stream(Device::cpu(), 1);
    s = ternarize_tensor(elements_of(tensor), {clip_factor, scaler, seed, step, worker, draw_offset}, *codes, stream);
  }
  std::int8_t* data = codes->data();
  const nb::capsule owner(codes.release(),
                          [](void* memory) noexcept { delete static_cast<std::vector<std::int8_t>*>(memory); });
  return nb::make_tuple(Codes(data, {static_cast<std::size_t>(tensor.count())}, owner), s);
}

nb::dict telemetry(nb::handle gradient, nb::handle sent, double scaler) {
  const Tensor g = read_tensor(gradient, "gradient");
  const Tensor decoded = read_tensor(sent, "sent");
  TERNGRAD_REQUIRE(g.shape() == decoded.shape(), "gradient and sent have different shapes");
  TERNGRAD_REQUIRE(scaler >= 0, "scaler must be a number of at least 0, got ", scaler);
  const TensorTelemetry found = compare_with_sent(g.float32("gradient"), decoded.float32("sent"), scaler);
  nb::dict result;
  result["norm"] = found.norm;
  result["max_abs"] = found.max_abs;
  result["zero_fraction"] = found.zero_fraction;
  result["clip_fraction"] = found.clip_fraction;
  result["kept_norm"] = found.kept_norm;
  result["clip_angle_degrees"] = found.clip_angle_degrees;
  // Undefined if a value is not finite.
  result["snr_db"] = std::isnan(found.error_norm) ? std::numeric_limits<double>::quiet_NaN() : found.snr_db;
  result["error_norm"] = found.error_norm;
  return result;
}

}  // namespace

void bind_analysis(nb::module_& module) {
  module.def("statistics", &statistics, "tensor"_a.none(), "block"_a);
  module.def("ternarize", &ternarize, "tensor"_a.none(), "clip_factor"_a, "scaler"_a.none(), "seed"_a, "step"_a,
             "worker"_a, "draw_offset"_a);
  module.def("telemetry", &telemetry, "gradient"_a.none(), "sent"_a.none(), "scaler"_a);
}

}  // namespace terngrad::python
