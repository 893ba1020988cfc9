#include "datasets/transforms/cpu/resize_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "datasets/transforms/cpu/resize_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void BytesToFloats(const std::uint8_t* HWY_RESTRICT bytes, std::size_t count, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::int32_t, decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> du;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(du, bytes + i))), d, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>(bytes[i]);
}

/// Processes the channels of a target pixel and one padding value as a vector, if vectors are wide enough. `Taps` 0:
/// the number of taps is `taps`.
template <std::size_t Taps>
HWY_INLINE void ResizeColumns(const float* HWY_RESTRICT row, const int* HWY_RESTRICT first,
                              const float* HWY_RESTRICT weights, std::size_t taps, std::size_t count,
                              float* HWY_RESTRICT out) {
  const hn::CappedTag<float, kColourChannels + kRowPadding> d;
  const std::size_t num_taps = Taps == 0 ? taps : Taps;
  for (std::size_t i = 0; i < count; ++i) {
    const float* HWY_RESTRICT pixels = row + static_cast<std::size_t>(first[i]) * kColourChannels;
    for (std::size_t c = 0; c < kColourChannels; c += hn::Lanes(d)) {
      auto sum = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, pixels + c));
      for (std::size_t t = 1; t < num_taps; ++t) {
        sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[t]), hn::LoadU(d, pixels + t * kColourChannels + c)));
      }
      hn::StoreU(sum, d, out + c);
    }
    weights += num_taps;
    out += kColourChannels;
  }
}

void ResizeColumnsOf(const float* row, const int* first, const float* weights, std::size_t taps, std::size_t count,
                     float* out) {
  switch (taps) {
    case 1:
      return ResizeColumns<1>(row, first, weights, taps, count, out);
    case 2:
      return ResizeColumns<2>(row, first, weights, taps, count, out);
    case 3:
      return ResizeColumns<3>(row, first, weights, taps, count, out);
    case 4:
      return ResizeColumns<4>(row, first, weights, taps, count, out);
    default:
      return ResizeColumns<0>(row, first, weights, taps, count, out);
  }
}

void WeighRows(const float* const* HWY_RESTRICT rows, const float* HWY_RESTRICT weights, std::size_t taps,
               std::size_t count, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    auto sum = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, rows[0] + i));
    for (std::size_t t = 1; t < taps; ++t) {
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[t]), hn::LoadU(d, rows[t] + i)));
    }
    hn::StoreU(sum, d, out + i);
  }
  for (; i < count; ++i) {
    float sum = weights[0] * rows[0][i];
    for (std::size_t t = 1; t < taps; ++t) sum += weights[t] * rows[t][i];
    out[i] = sum;
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {

HWY_EXPORT(BytesToFloats);
HWY_EXPORT(ResizeColumnsOf);
HWY_EXPORT(WeighRows);

void bytes_to_floats(const std::uint8_t* bytes, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(BytesToFloats)(bytes, count, out);
}

void resize_columns(const float* row, const int* first, const float* weights, std::size_t taps, std::size_t count,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(ResizeColumnsOf)(row, first, weights, taps, count, out);
}

void weigh_rows(const float* const* rows, const float* weights, std::size_t taps, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(WeighRows)(rows, weights, taps, count, out);
}

}  // namespace terngrad::cpu
#endif
