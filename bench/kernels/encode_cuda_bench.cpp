// Encode as a whole: statistics, scaler, ternarize and pack, of a tensor, in blocks, and of whole models.
#include <algorithm>
#include <memory>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "bench/ternary_check.h"
#include "bench/typed_gradient.h"
#include "kernels/codes/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/copy.h"
#include "kernels/statistics/scaler.h"
#include "nets/net.h"

namespace terngrad::bench {
namespace {

constexpr double kClip = 2.5;
constexpr std::int64_t kBlock = 12288;  // of float32 the largest that an exchange encodes in one pass
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kTernarize};

/// One gradient of a layout with what its encoding needs.
struct EncodeSet {
  StatisticsPlan plan;
  Ternarizer ternarizer{Device::cuda()};
  Buffer<float> scalers;
  Buffer<std::uint32_t> payload;
  std::vector<TernarizeTask> tasks;
  std::vector<std::int64_t> bytes;

  EncodeSet(const Layout& layout, const float* gradient)
      : plan(whole_segments(layout), Device::cuda()),
        scalers(layout.num_segments(), Device::cuda()),
        payload(layout.flat_elements() / 16, Device::cuda()),
        bytes(static_cast<std::size_t>(layout.num_segments())) {
    for (int index = 0; index < layout.num_segments(); ++index) {
      const Segment& segment = layout.segment(index);
      tasks.push_back({.gradient = gradient + segment.offset,
                       .count = segment.num_elements,
                       .draw_offset = segment.draw_offset,
                       .scalers = scalers.data() + index,
                       .payload = reinterpret_cast<std::uint8_t*>(payload.data() + segment.offset / 16)});
    }
  }
};

CudaSubject encode_layout(const Layout& layout) {
  struct State {
    Layout layout;
    std::vector<Buffer<float>> gradients;
    std::vector<std::unique_ptr<EncodeSet>> sets;
  };
  const auto state = std::make_shared<State>();
  state->layout = layout;
  CudaSubject subject;
  subject.elements = static_cast<double>(layout.num_elements());
  subject.bytes = 8.25 * subject.elements;  // the gradient is read twice
  // Statistics of chunks, of the slots of long tensors, of tensors; codes.
  const bool any_long = std::ranges::any_of(
      layout.segments(), [](const Segment& each) { return each.num_elements > 32 * kChunkElements; });
  subject.num_launches = 3 + (any_long ? 1 : 0);
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = gradients_on(stream, state->layout.flat_elements(), num_sets);
    std::vector<std::function<void()>> works;
    for (Buffer<float>& gradient : state->gradients) {
      state->sets.push_back(std::make_unique<EncodeSet>(state->layout, gradient.data()));
      EncodeSet& set = *state->sets.back();
      const TensorTable table(state->layout, gradient.data());
      works.emplace_back([=, &set, &stream] {
        local_scalers(set.plan, {&table, 1}, kClip, ScalerRule::kPaper, set.scalers.span(), stream);
        set.ternarizer.run(set.tasks, {}, kKey, set.bytes, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    // The largest tensor, with the scaler that the CPU finds.
    int largest = 0;
    for (int index = 0; index < state->layout.num_segments(); ++index) {
      if (state->layout.segment(index).num_elements > state->layout.segment(largest).num_elements) largest = index;
    }
    const Segment& segment = state->layout.segment(largest);
    EncodeSet& set = *state->sets.back();
    float scaler = 0;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(segment.num_elements + 15) / 16);
    copy<float>(set.scalers.span().subspan(static_cast<std::size_t>(largest), 1), {&scaler, 1}, stream);
    copy<std::uint32_t>(set.payload.span().subspan(static_cast<std::size_t>(segment.offset / 16), words.size()),
                        std::span(words), stream);
    stream.synchronize();
    const float* values = gradient(state->layout.flat_elements()) + segment.offset;
    Stream cpu;
    const auto count = static_cast<std::size_t>(segment.num_elements);
    const float expected = local_scaler(measure({values, count}, cpu), segment.num_elements, kClip, ScalerRule::kPaper);
    DrawKey key = kKey;
    const PackedCodes codes{TernaryFormat::kT2,
                            {reinterpret_cast<const std::uint8_t*>(words.data()), words.size() * 4},
                            segment.num_elements,
                            1};
    return scaler == expected &&
           codes_are_right(codes, values, scaler, key, static_cast<std::uint64_t>(segment.draw_offset));
  };
  return subject;
}

CudaSubject encode_in_blocks(std::int64_t n, ElementType type) {
  struct Set {
    Buffer<float> scalers;
    Buffer<std::uint32_t> payload;
    BlockEncoder encoder{Device::cuda()};
  };
  struct State {
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<std::unique_ptr<Set>> sets;
  };
  const auto state = std::make_shared<State>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes =
      (static_cast<double>(element_bytes(type)) + 0.25) * subject.elements;  // the second read is from the caches
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = typed_gradients_on(stream, type, n, num_sets);
    std::vector<std::function<void()>> works;
    for (Buffer<std::uint8_t>& gradient : state->gradients) {
      state->sets.push_back(std::make_unique<Set>());
      Set& set = *state->sets.back();
      set.scalers = Buffer<float>(num_blocks(0, n, kBlock), Device::cuda());
      set.payload = Buffer<std::uint32_t>((n + 15) / 16, Device::cuda());
      const EncodeBlocksTask task{.gradient = gradient.data(),
                                  .count = n,
                                  .block_elements = kBlock,
                                  .scalers = set.scalers.data(),
                                  .payload = reinterpret_cast<std::uint8_t*>(set.payload.data()),
                                  .type = type};
      works.emplace_back([=, &set, &stream] { set.encoder.run({&task, 1}, kClip, ScalerRule::kPaper, kKey, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    const std::int64_t count = std::min(n, kBlock);
    float scaler = 0;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(count + 15) / 16);
    copy<float>(state->sets.back()->scalers.span().first(1), {&scaler, 1}, stream);
    copy<std::uint32_t>(state->sets.back()->payload.span().first(words.size()), std::span(words), stream);
    stream.synchronize();
    Stream cpu;
    const float* values = typed_gradient(type, n).values;
    const Statistics statistics = measure({values, static_cast<std::size_t>(count)}, cpu);
    const PackedCodes codes{
        TernaryFormat::kT2, {reinterpret_cast<const std::uint8_t*>(words.data()), words.size() * 4}, count, 1};
    return scaler == local_scaler(statistics, count, kClip, ScalerRule::kPaper) &&
           codes_are_right(codes, values, scaler, kKey);
  };
  return subject;
}

Layout one_tensor(std::int64_t n) {
  Layout layout;
  layout.add("gradient", {n});
  return layout;
}

}  // namespace

void register_cuda_encode() {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      const double set_bytes = 4.25 * static_cast<double>(n);
      register_cuda_subject(cuda_bench_name("encode_tensor", "f32", n), set_bytes, residency,
                            [n] { return encode_layout(one_tensor(n)); });
      for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
        const double block_bytes = (static_cast<double>(element_bytes(type)) + 0.25) * static_cast<double>(n);
        register_cuda_subject(cuda_bench_name("encode_blocks", bench_type(type), n), block_bytes, residency,
                              [=] { return encode_in_blocks(n, type); });
      }
    }
  }
#ifdef TERNGRAD_BENCH_TRAINERS
  for (const std::string name : {"lenet", "cifar10_alexnet", "alexnet", "vgg_a"}) {
    const Layout layout = net_layout(name);
    const double set_bytes = 4.25 * static_cast<double>(layout.num_elements());
    // Larger than any cache: AlexNet and VGG-A.
    const std::vector<Residency> residencies =
        set_bytes < 32e6 ? std::vector{Residency::kCache, Residency::kMemory} : std::vector{Residency::kMemory};
    for (const Residency residency : residencies) {
      register_cuda_subject("encode_model/cuda/f32/" + name, set_bytes, residency,
                            [layout] { return encode_layout(layout); });
    }
  }
#endif
}

}  // namespace terngrad::bench
