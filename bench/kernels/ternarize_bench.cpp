#include "kernels/codes/ternarize.h"

#include <memory>
#include <string>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/messages.h"
#include "bench/rows.h"
#include "bench/ternary_check.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kTernarize};

Subject ternarize_subject(std::int64_t n, const TernarizeOptions& options, ElementType type) {
  const TernaryFormat format = options.format;
  const std::int64_t room = payload_bytes(format, n, kWorkers);
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<std::uint8_t> gradient;
      Buffer<float> scaler;
      Buffer<std::uint64_t> payload;
      Ternarizer ternarizer;
      std::int64_t bytes = 0;
    };
    const auto set = std::make_shared<Set>(Set{{typed_gradient(type, n).elements, stream},
                                               on_device(std::span(&kMessageScaler, 1), stream),
                                               Buffer<std::uint64_t>((room + 7) / 8, stream.device()),
                                               Ternarizer(stream.device())});
    const TernarizeTask task{.gradient = set->gradient.data(),
                             .count = n,
                             .scalers = set->scaler.data(),
                             .payload = reinterpret_cast<std::uint8_t*>(set->payload.data()),
                             .type = type};
    const auto check = [=, &stream] {
      const std::vector<std::uint64_t> words = on_host(set->payload.span(), stream);
      const auto payload = bytes_of(std::span(words)).first(static_cast<std::size_t>(set->bytes));
      return codes_are_right({format, payload, n, kWorkers}, typed_gradient(type, n).values, kMessageScaler, kKey, 0,
                             options.rounding);
    };
    const auto run = [=, &stream] { set->ternarizer.run({&task, 1}, options, kKey, {&set->bytes, 1}, stream); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  const double written =
      has_fixed_size(format) ? static_cast<double>(room) : encode_messages(n, format, 1).total_bytes();
  return {
      .bytes = static_cast<double>(element_bytes(type)) * elements + written, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](TernaryFormat format, ElementType type = ElementType::kFloat32,
                       Rounding rounding = Rounding::kStochastic) {
    const TernarizeOptions options{.format = format, .num_workers = kWorkers, .rounding = rounding};
    // Sizes that depend on the data are no part of a graph.
    rows.add("ternarize_" + to_string(format) + (rounding == Rounding::kNearest ? "_nearest" : ""), bench_type(type),
             [=](std::int64_t n) { return ternarize_subject(n, options, type); },
             {.devices = has_fixed_size(format) ? Devices::kBoth : Devices::kCpu});
  };
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans, TernaryFormat::kLanes}) {
    add(format);
  }
  add(TernaryFormat::kT2, ElementType::kBfloat16);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kNearest);
});

}  // namespace
}  // namespace terngrad::bench
