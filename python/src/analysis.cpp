// Statistics, ternarize and telemetry of one tensor.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "compress/plan/telemetry.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/statistics.h"
#include "python/src/calls.h"
#include "python/src/module.h"
#include "python/src/tensors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

/// A tensor as the only one of a layout.
struct Alone {
  Tensor tensor;
  Layout layout;
  TensorTable table;

  Alone(nb::handle object, const std::string& name) : tensor(read_tensor(object, name)) {
    layout.add("tensor", {tensor.count()});
    void* const pointers[] = {tensor.data()};
    table = TensorTable(layout, tensor.type, pointers);
  }
};

nb::dict to_dict(const Statistics& values, const Statistics& magnitudes, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const double mean = count > 0 ? values.sum / n : 0;
  const double spread = count > 0 ? values.sum_squares / n - mean * mean : 0;
  const double variance = values.is_nonfinite() ? std::numeric_limits<double>::quiet_NaN() : std::fmax(spread, 0);
  nb::dict result;
  result["count"] = count;
  result["mean"] = mean;
  result["std"] = std::sqrt(variance);
  result["max_abs"] = static_cast<double>(values.max_abs());
  result["l1"] = magnitudes.sum;
  result["l2"] = std::sqrt(values.sum_squares);
  result["finite"] = !values.is_nonfinite();
  return result;
}

/// Of each block of `block` elements; of everything if that is 0.
nb::list statistics(nb::handle object, std::int64_t block) {
  TERNGRAD_REQUIRE(block >= 0, "block must be at least 0 (0: one for the tensor), got ", block);
  const Alone alone(object, "tensor");
  std::vector<Slice> slices;
  const std::int64_t count = alone.tensor.count();
  for (std::int64_t first = 0; first < count || slices.empty(); first += block) {
    slices.push_back({0, first, block == 0 ? count : std::min(block, count - first)});
    if (block == 0 || count == 0) break;
  }
  std::vector<Statistics> values(slices.size());
  std::vector<Statistics> magnitudes(slices.size());
  {
    const UnlockedCall unlocked;
    Stream stream(Device::cpu(), 1);
    StatisticsPlan plan(slices);
    plan.run(alone.table, values, stream);
    plan.run(alone.table, magnitudes, stream, SummedAs::kMagnitudes);
  }
  nb::list result;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    result.append(to_dict(values[i], magnitudes[i], slices[i].count));
  }
  return result;
}

using Codes = nb::ndarray<nb::numpy, std::int8_t, nb::ndim<1>>;

/// @returns (codes, scaler)
nb::tuple ternarize_tensor(nb::handle object, double clip_factor, std::optional<float> scaler, std::uint64_t seed,
                           std::uint64_t step, std::uint32_t worker, std::int64_t draw_offset) {
  TERNGRAD_REQUIRE(clip_factor >= 0 && std::isfinite(clip_factor), "clip_factor must be a number of at least 0, got ",
                   clip_factor);
  TERNGRAD_REQUIRE(step >> 40 == 0, "step: draws are keyed by 40 bits of it, got ", step);
  TERNGRAD_REQUIRE(draw_offset >= 0 && draw_offset % kDrawAlignment == 0 && draw_offset >> 40 == 0,
                   "draw_offset must be a multiple of ", kDrawAlignment, " from 0 to 2^40, got ", draw_offset);
  const Alone alone(object, "tensor");
  const std::int64_t count = alone.tensor.count();
  auto codes = std::make_unique<std::vector<std::int8_t>>(static_cast<std::size_t>(count));
  float s = 0;
  {
    const UnlockedCall unlocked;
    Stream stream(Device::cpu(), 1);
    StatisticsPlan plan({{0, 0, count}});
    Statistics measured;
    plan.run(alone.table, {&measured, 1}, stream);
    TERNGRAD_REQUIRE(!measured.is_nonfinite(), "tensor holds NaN or infinity");
    s = scaler ? *scaler : local_scaler(measured, count, clip_factor, ScalerRule::kPaper);
    TERNGRAD_REQUIRE(s >= 0 && s <= kMaxScaler, scaler ? "scaler" : "the largest element",
                     " must be a number from 0 to ", kMaxScaler, ", got ", s);
    std::vector<std::uint32_t> payload(static_cast<std::size_t>(payload_bytes(CodeFormat::kT2, count, 1) / 4));
    const TernarizeTask task{.gradient = alone.tensor.data(),
                             .count = count,
                             .draw_offset = draw_offset,
                             .scalers = &s,
                             .payload = reinterpret_cast<std::uint8_t*>(payload.data()),
                             .worker = worker,
                             .type = alone.tensor.type};
    std::int64_t bytes = 0;
    ternarize({&task, 1}, {}, {seed, step, 0, DrawPurpose::kTernarize}, {&bytes, 1}, stream);
    std::vector<std::int16_t> wide(codes->size());
    unpack_codes({CodeFormat::kT2, {task.payload, static_cast<std::size_t>(bytes)}, count}, 0, wide);
    for (std::size_t i = 0; i < wide.size(); ++i) (*codes)[i] = static_cast<std::int8_t>(wide[i]);
  }
  std::int8_t* data = codes->data();
  const nb::capsule owner(codes.release(),
                          [](void* memory) noexcept { delete static_cast<std::vector<std::int8_t>*>(memory); });
  return nb::make_tuple(Codes(data, {static_cast<std::size_t>(count)}, owner), s);
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
  // Of what is not finite nothing can be said.
  result["snr_db"] = std::isnan(found.error_norm) ? std::numeric_limits<double>::quiet_NaN() : found.snr_db;
  result["error_norm"] = found.error_norm;
  return result;
}

}  // namespace

void bind_analysis(nb::module_& module) {
  module.def("statistics", &statistics, "tensor"_a, "block"_a);
  module.def("ternarize", &ternarize_tensor, "tensor"_a, "clip_factor"_a, "scaler"_a.none(), "seed"_a, "step"_a,
             "worker"_a, "draw_offset"_a);
  module.def("telemetry", &telemetry, "gradient"_a, "sent"_a, "scaler"_a);
}

}  // namespace terngrad::python
