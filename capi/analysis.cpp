// Statistics, telemetry and ternary codes of one tensor.
#include <cmath>
#include <limits>

#include "capi/arrays.h"
#include "capi/status.h"
#include "capi/stream.h"
#include "capi/structs.h"
#include "compress/plan/telemetry.h"
#include "compress/plan/tensor_analysis.h"

using namespace terngrad;
using namespace terngrad::capi;

extern "C" {

tg_status tg_statistics(const tg_array* tensor, tg_statistics_out* out, const tg_stream* stream) {
  return guard([&] {
    const TensorElements elements = read_array(deref(tensor, "tensor"), "tensor");
    check_struct(out, "out");
    Stream queue = stream_of(stream);
    const TensorSummary found = summarize(elements, 0, queue)[0];
    fill(out, {.struct_size = 0,
               .finite = found.finite ? 1 : 0,
               .count = found.count,
               .mean = found.mean,
               .standard_deviation = found.standard_deviation,
               .max_abs = found.max_abs,
               .l1 = found.l1,
               .l2 = found.l2});
  });
}

tg_status tg_telemetry(const tg_array* gradient, const tg_array* sent, float scaler, tg_telemetry_out* out) {
  return guard([&] {
    const std::span<const float> g = read_floats(deref(gradient, "gradient"), "gradient");
    const std::span<const float> decoded = read_floats(deref(sent, "sent"), "sent");
    check_struct(out, "out");
    TERNGRAD_REQUIRE(scaler >= 0, "scaler must be a number of at least 0, got ", scaler);
    const TensorTelemetry found = compare_with_sent(g, decoded, static_cast<double>(scaler));
    // Undefined if a value is not finite.
    const bool is_known = !std::isnan(found.error_norm);
    fill(out, {.struct_size = 0,
               .reserved = 0,
               .norm = found.norm,
               .max_abs = found.max_abs,
               .zero_fraction = found.zero_fraction,
               .clip_fraction = found.clip_fraction,
               .kept_norm = found.kept_norm,
               .clip_angle_degrees = found.clip_angle_degrees,
               .snr_db = is_known ? found.snr_db : std::numeric_limits<double>::quiet_NaN(),
               .error_norm = found.error_norm});
  });
}

tg_status tg_ternarize(const tg_array* tensor, double clip_factor, const float* scaler, uint64_t seed, uint64_t step,
                       uint32_t worker, int64_t draw_offset, int8_t* codes, float* used, const tg_stream* stream) {
  return guard([&] {
    const TensorElements elements = read_array(deref(tensor, "tensor"), "tensor");
    TERNGRAD_REQUIRE(codes != nullptr || elements.count == 0, "codes is NULL");
    TernarizeKeys keys{
        .clip_factor = clip_factor, .seed = seed, .step = step, .worker = worker, .draw_offset = draw_offset};
    if (scaler != nullptr) keys.scaler = *scaler;
    Stream queue = stream_of(stream);
    const float s = ternarize_tensor(elements, keys, {codes, static_cast<std::size_t>(elements.count)}, queue);
    if (used != nullptr) *used = s;
  });
}

}  // extern "C"
