#include "kernels/codes/ternarize.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/messages.h"
#include "bench/rows.h"
#include "bench/ternary_check.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kTernarize};

/// @param n              elements of all gradients
/// @param num_gradients  of as many of the kWorkers workers, which share draws if they are stratified
Subject ternarize_subject(std::int64_t n, const TernarizeOptions& options, ElementType type, int num_gradients) {
  const TernaryFormat format = options.format;
  const std::int64_t each = (n / num_gradients + kChunkElements - 1) / kChunkElements * kChunkElements;
  const auto parts = [=] {
    std::vector<Slice> slices;
    for (std::int64_t first = 0; first < n; first += each) slices.push_back({0, first, std::min(each, n - first)});
    return slices;
  }();
  const std::int64_t room = (payload_bytes(format, num_gradients == 1 ? n : each, kWorkers) + 7) / 8;  // words
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<std::uint8_t> gradient;
      Buffer<float> scaler;
      Buffer<std::uint64_t> payload;
      Ternarizer ternarizer;
      std::vector<TernarizeTask> tasks;
      std::vector<std::int64_t> bytes;
    };
    const auto num_parts = static_cast<std::int64_t>(parts.size());
    const auto set = std::make_shared<Set>(Set{{typed_gradient(type, n).elements, stream},
                                               on_device(std::span(&kMessageScaler, 1), stream),
                                               Buffer<std::uint64_t>(room * num_parts, stream.device()),
                                               Ternarizer(stream.device()),
                                               {},
                                               std::vector<std::int64_t>(parts.size())});
    for (const Slice& part : parts) {
      const auto number = static_cast<std::int64_t>(set->tasks.size());
      set->tasks.push_back(
          {.gradient = set->gradient.data() + part.first * static_cast<std::int64_t>(element_bytes(type)),
           .count = part.count,
           .scalers = set->scaler.data(),
           .payload = reinterpret_cast<std::uint8_t*>(set->payload.data() + number * room),
           .worker = static_cast<std::uint32_t>(number),
           .type = type});
    }
    const auto check = [=, &stream] {
      const std::vector<std::uint64_t> words = on_host(set->payload.span(), stream);
      const std::span<const float> values = typed_gradient(type, n).values;
      bool is_right = true;
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const auto payload = bytes_of(std::span(words).subspan(k * static_cast<std::size_t>(room)))
                                 .first(static_cast<std::size_t>(set->bytes[k]));
        DrawKey key = kKey;
        key.worker = static_cast<std::uint32_t>(k);
        const auto of_part =
            values.subspan(static_cast<std::size_t>(parts[k].first), static_cast<std::size_t>(parts[k].count));
        is_right &= codes_are_right({format, payload, parts[k].count, kWorkers}, of_part, kMessageScaler, key, 0,
                                    options.rounding);
      }
      return is_right;
    };
    const auto run = [=, &stream] { set->ternarizer.run(set->tasks, options, kKey, set->bytes, stream); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  const double written = has_fixed_size(format)
                             ? 8 * static_cast<double>(room * static_cast<std::int64_t>(parts.size()))
                             : encode_messages(n, format, 1).total_bytes();
  return {
      .bytes = static_cast<double>(element_bytes(type)) * elements + written, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](TernaryFormat format, ElementType type = ElementType::kFloat32,
                       Rounding rounding = Rounding::kStochastic, int num_gradients = 1) {
    const TernarizeOptions options{.format = format, .num_workers = kWorkers, .rounding = rounding};
    // Sizes that depend on the data are no part of a graph.
    rows.add("ternarize_" + to_string(format) + (rounding == Rounding::kStochastic ? "" : "_" + to_string(rounding)) +
                 (num_gradients == 1 ? "" : "_x" + std::to_string(num_gradients)),
             bench_type(type), [=](std::int64_t n) { return ternarize_subject(n, options, type, num_gradients); },
             {.devices = has_fixed_size(format) ? Devices::kBoth : Devices::kCpu});
  };
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans, TernaryFormat::kLanes}) {
    add(format);
  }
  add(TernaryFormat::kT2, ElementType::kBfloat16);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kNearest);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kStratified);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kStochastic, kWorkers);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kStratified, kWorkers);
});

}  // namespace
}  // namespace terngrad::bench
