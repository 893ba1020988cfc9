// Tree sums of eight workers: of floating-point values, and of codes with a scaler for each worker.
#include "kernels/codes/tree_sum.h"

#include <memory>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/messages.h"
#include "bench/rows.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;
/// Workers' floating-point values are the same gradient, each from this many elements further on.
constexpr std::int64_t kShift = 64;
/// Scalers of the workers' codes.
constexpr float kScalers[kWorkers] = {0.021f, 0.022f, 0.023f, 0.024f, 0.025f, 0.026f, 0.027f, 0.028f};

/// Leaves in host memory, of codes as the messages that hold them.
struct Leaves {
  Messages messages;
  std::vector<MeanLeaf> leaves;
};

Leaves make_floats(std::int64_t n, ElementType type) {
  Leaves made;
  const std::span<const std::uint8_t> all = typed_gradient(type, n + kWorkers * kShift).elements;
  for (std::size_t k = 0; k < kWorkers; ++k) {
    made.leaves.push_back(
        {all.subspan(k * kShift * element_bytes(type), static_cast<std::size_t>(n) * element_bytes(type))});
  }
  return made;
}

Leaves make_codes(std::int64_t n, CodeFormat format) {
  Leaves made{encode_messages(n, format, kWorkers), {}};
  for (std::size_t k = 0; k < kWorkers; ++k) made.leaves.push_back({made.messages.codes(k).payload, kScalers + k});
  return made;
}

/// True if a mean is that of the leaves, added in the order of the format.
bool is_right(const Leaves& made, const MeanTask& task, const std::vector<float>& mean) {
  return all_chunks(task.count, [&](std::int64_t first, std::int64_t count) {
    std::vector<std::vector<float>> v(kWorkers, std::vector<float>(static_cast<std::size_t>(count)));
    for (std::size_t k = 0; k < kWorkers; ++k) decode_leaf(task, made.leaves[k], first, v[k]);
    for (std::size_t i = 0; i < v[0].size(); ++i) {
      const float sum = ((v[0][i] + v[1][i]) + (v[2][i] + v[3][i])) + ((v[4][i] + v[5][i]) + (v[6][i] + v[7][i]));
      if (mean[static_cast<std::size_t>(first) + i] != sum * (1.0f / kWorkers)) return false;
    }
    return true;
  });
}

Subject tree_sum(std::int64_t n, LeafFormat format, Leaves leaves) {
  const auto made = std::make_shared<const Leaves>(std::move(leaves));
  const auto prepare = [=](Stream& stream) {
    // Copies on either device: the host's floating-point values overlap.
    struct Set {
      std::vector<Buffer<std::uint8_t>> payloads;
      Buffer<float> scalers, out;
      std::vector<MeanLeaf> leaves;
      TreeSummer summer;
    };
    const auto set = std::make_shared<Set>(Set{{},
                                               on_device(std::span<const float>(kScalers), stream),
                                               Buffer<float>(n, stream.device()),
                                               {},
                                               TreeSummer(stream.device())});
    for (const MeanLeaf& leaf : made->leaves) {
      set->payloads.push_back(on_device(leaf.payload, stream));
      set->leaves.push_back({set->payloads.back().span(), set->scalers.data() + set->leaves.size()});
    }
    const MeanTask task{
        .format = format, .workers = set->leaves, .count = n, .scale = 1.0f / kWorkers, .out = set->out.data()};
    const auto run = [=, &stream] { set->summer.run({&task, 1}, stream); };
    const auto check = [=, &stream] { return is_right(*made, task, on_host(set->out.span(), stream)); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  double bytes = 4 * elements;
  for (const MeanLeaf& leaf : made->leaves) bytes += static_cast<double>(leaf.payload.size());
  return {.bytes = bytes, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add_floats = [&](LeafFormat format, ElementType type, const Limits& limits) {
    rows.add(
        "aggregate8_" + to_string(format), "f32",
        [=](std::int64_t n) { return tree_sum(n, format, make_floats(n, type)); }, limits);
  };
  add_floats(LeafFormat::kFloat32, ElementType::kFloat32, {.max_cpu_elements = 1 << 23});
  add_floats(LeafFormat::kBfloat16, ElementType::kBfloat16, {.devices = Devices::kCuda});
  for (const CodeFormat format : {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask}) {
    rows.add("tree_sum8_" + to_string(format), "f32",
             [=](std::int64_t n) { return tree_sum(n, leaf_format(format), make_codes(n, format)); },
             {.devices = Devices::kCuda});
  }
  for (const CodeFormat format : {CodeFormat::kE2, CodeFormat::kE3, CodeFormat::kE4}) {
    rows.add("tree_sum8_" + to_string(format), "f32",
             [=](std::int64_t n) { return tree_sum(n, leaf_format(format), make_codes(n, format)); },
             {.max_cpu_elements = 1 << 23});
  }
});

}  // namespace
}  // namespace terngrad::bench
