// Encode as a whole: statistics, scaler, ternarize and pack, of a tensor, in blocks, and of whole models.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "bench/ternary_check.h"
#include "kernels/codes/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler.h"
#ifdef TERNGRAD_BENCH_TRAINERS
#include "nets/net.h"
#endif

namespace terngrad::bench {
namespace {

constexpr double kClip = 2.5;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kTernarize};

/// True if a run of t2 codes and its scaler are those of its elements.
/// @param draw_offset  of its first element
bool is_right(std::span<const std::uint32_t> words, float scaler, std::span<const float> values,
              std::int64_t draw_offset = 0) {
  Stream cpu;
  const auto count = static_cast<std::int64_t>(values.size());
  return scaler == local_scaler(measure(values, cpu), count, kClip, ScalerRule::kPaper) &&
         codes_are_right({TernaryFormat::kT2, bytes_of(words), count, 1}, values, scaler, kKey,
                         static_cast<std::uint64_t>(draw_offset));
}

/// The words of `count` t2 codes on the host.
std::vector<std::uint32_t> words_on_host(const Buffer<std::uint32_t>& payload, std::int64_t first, std::int64_t count,
                                         Stream& stream) {
  return on_host(
      payload.span().subspan(static_cast<std::size_t>(first / 16), static_cast<std::size_t>(count + 15) / 16), stream);
}

/// The gradient of a layout with what its encoding needs.
struct EncodeSet {
  EncodeSet(const Layout& layout, Stream& stream)
      : gradient(bench::gradient(layout.flat_elements()), stream),
        table(layout, const_cast<float*>(gradient.data())),
        plan(whole_segments(layout), stream.device()),
        ternarizer(stream.device()),
        scalers(layout.num_segments(), stream.device()),
        payload((layout.flat_elements() + 15) / 16, stream.device()),
        bytes(static_cast<std::size_t>(layout.num_segments())) {
    for (int index = 0; index < layout.num_segments(); ++index) {
      const Segment& segment = layout.segment(index);
      tasks.push_back({.gradient = gradient.data() + segment.offset,
                       .count = segment.num_elements,
                       .draw_offset = segment.draw_offset,
                       .scalers = scalers.data() + index,
                       .payload = reinterpret_cast<std::uint8_t*>(payload.data() + segment.offset / 16)});
    }
  }

  Input<float> gradient;
  TensorTable table;
  StatisticsPlan plan;
  Ternarizer ternarizer;
  Buffer<float> scalers;
  Buffer<std::uint32_t> payload;
  std::vector<TernarizeTask> tasks;
  std::vector<std::int64_t> bytes;
};

Subject encode_layout(const Layout& layout) {
  const auto prepare = [=](Stream& stream) {
    const auto set = std::make_shared<EncodeSet>(layout, stream);
    const auto run = [=, &stream] {
      local_scalers(set->plan, {&set->table, 1}, kClip, ScalerRule::kPaper, set->scalers.span(), stream);
      set->ternarizer.run(set->tasks, {}, kKey, set->bytes, stream);
    };
    const auto check = [=, &stream] {
      const auto& segments = layout.segments();
      const auto largest = std::ranges::max_element(segments, {}, &Segment::num_elements);
      const auto index = static_cast<std::size_t>(largest - segments.begin());
      return is_right(
          words_on_host(set->payload, largest->offset, largest->num_elements, stream),
          on_host(set->scalers.span(), stream)[index],
          gradient(layout.flat_elements())
              .subspan(static_cast<std::size_t>(largest->offset), static_cast<std::size_t>(largest->num_elements)),
          largest->draw_offset);
    };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(layout.num_elements());
  // Statistics of chunks, of the slots of long tensors, of tensors; codes.
  const bool any_long = std::ranges::any_of(
      layout.segments(), [](const Segment& each) { return each.num_elements > 32 * kChunkElements; });
  return {.bytes = 8.25 * elements,  // the gradient is read twice
          .elements = elements,
          .set_bytes = 4.25 * elements,
          .num_launches = any_long ? 4 : 3,
          .prepare = prepare};
}

Subject encode_tensor(std::int64_t n) {
  Layout layout;
  layout.add("gradient", {n});
  return encode_layout(layout);
}

/// The second read of a block is from the caches. The first block is checked.
Subject encode_in_blocks(std::int64_t n, ElementType type, std::int64_t block) {
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<std::uint8_t> gradient;
      Buffer<float> scalers;
      Buffer<std::uint32_t> payload;
      BlockEncoder encoder;
    };
    const auto set = std::make_shared<Set>(Set{{typed_gradient(type, n).elements, stream},
                                               Buffer<float>(num_blocks(0, n, block), stream.device()),
                                               Buffer<std::uint32_t>((n + 15) / 16, stream.device()),
                                               BlockEncoder(stream.device())});
    const EncodeBlocksTask task{.gradient = set->gradient.data(),
                                .count = n,
                                .block_elements = block,
                                .scalers = set->scalers.data(),
                                .payload = reinterpret_cast<std::uint8_t*>(set->payload.data()),
                                .type = type};
    const auto check = [=, &stream] {
      const std::int64_t count = std::min(n, block);
      return is_right(words_on_host(set->payload, 0, count, stream), on_host(set->scalers.span(), stream)[0],
                      typed_gradient(type, n).values.first(static_cast<std::size_t>(count)));
    };
    const auto run = [=, &stream] { set->encoder.run({&task, 1}, kClip, ScalerRule::kPaper, kKey, stream); };
    return Work{run, check};
  };
  const auto elements = static_cast<double>(n);
  return {
      .bytes = (static_cast<double>(element_bytes(type)) + 0.25) * elements, .elements = elements, .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  rows.add("encode_tensor", "f32", encode_tensor);
  const auto add_blocks = [&](ElementType type, std::int64_t block, Devices devices) {
    rows.add("encode_blocks", bench_type(type), [=](std::int64_t n) { return encode_in_blocks(n, type, block); },
             {.devices = devices});
  };
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    add_blocks(type, 32768, Devices::kCpu);
    // The largest block of float32 that an exchange encodes in one pass.
    add_blocks(type, 12288, Devices::kCuda);
  }
#ifdef TERNGRAD_BENCH_TRAINERS
  for (const std::string name : {"lenet", "cifar10_alexnet", "alexnet", "vgg_a"}) {
    const Layout layout = net_layout(name);
    const auto make = [layout] { return encode_layout(layout); };
    rows.cuda.push_back({"encode_model/cuda/f32/" + name, Residency::kMemory, make});
    // AlexNet and VGG-A are larger than any cache.
    if (make().set_bytes < 32e6) rows.cuda.push_back({"encode_model/cuda/f32/" + name, Residency::kCache, make});
  }
#endif
});

}  // namespace
}  // namespace terngrad::bench
