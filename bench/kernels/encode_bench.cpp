// Encode as a whole: statistics, scaler, ternarize and pack.
#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/subjects.h"
#include "bench/ternary_check.h"
#include "bench/typed_gradient.h"
#include "kernels/codes/encode_blocks.h"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/statistics.h"

namespace terngrad::bench {
namespace {

constexpr double kClip = 2.5;
constexpr std::int64_t kBlock = 32768;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kTernarize};

struct State {
  Layout layout;
  std::unique_ptr<StatisticsPlan> plan;
  Statistics statistics;
  std::vector<float> scalers;
  Buffer<std::uint8_t> payload;
  std::int64_t bytes = 0;
};

std::shared_ptr<State> make_state(std::int64_t n, std::int64_t block) {
  auto state = std::make_shared<State>();
  state->layout.add("gradient", {n});
  state->plan = std::make_unique<StatisticsPlan>(whole_segments(state->layout));
  state->scalers.resize(static_cast<std::size_t>(num_blocks(0, n, block)));
  state->payload = Buffer<std::uint8_t>(payload_bytes(TernaryFormat::kT2, n, 1));
  return state;
}

Subject encode_tensor(std::int64_t n) {
  const auto state = make_state(n, 0);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = 8.25 * static_cast<double>(n);  // the gradient is read twice
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    const TensorTable table(state->layout, const_cast<float*>(gradient(n)));
    return [=, &stream] {
      state->plan->run(table, {&state->statistics, 1}, stream);
      state->scalers[0] = local_scaler(state->statistics, n, kClip, ScalerRule::kPaper);
      const TernarizeTask task{.gradient = gradient(n),
                               .first = 0,
                               .count = n,
                               .draw_offset = 0,
                               .block_elements = 0,
                               .scalers = state->scalers.data(),
                               .clips = nullptr,
                               .payload = state->payload.data()};
      ternarize({&task, 1}, {}, kKey, {&state->bytes, 1}, stream);
    };
  };
  subject.check = [=] {
    const PackedCodes codes{TernaryFormat::kT2, state->payload.span(), n, 1};
    return codes_are_right(codes, gradient(n), state->scalers[0], kKey);
  };
  return subject;
}

Subject encode_in_blocks(std::int64_t n, ElementType type) {
  const auto state = make_state(n, kBlock);
  Subject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = (static_cast<double>(element_bytes(type)) + 0.25) * static_cast<double>(n);
  subject.prepare = [=](Stream& stream) -> std::function<void()> {
    const void* elements = typed_gradient(type, n).elements;
    return [=, &stream] {
      const EncodeBlocksTask task{.gradient = elements,
                                  .count = n,
                                  .draw_offset = 0,
                                  .block_elements = kBlock,
                                  .scalers = state->scalers.data(),
                                  .payload = state->payload.data(),
                                  .type = type};
      encode_blocks({&task, 1}, kClip, ScalerRule::kPaper, kKey, stream);
    };
  };
  subject.check = [=] {
    // The first block by the definition, with the scaler that its own statistics give.
    const std::int64_t count = std::min(n, kBlock);
    Stream one(Device::cpu(), 1);
    const float* values = typed_gradient(type, n).values;
    const Statistics statistics = measure({values, static_cast<std::size_t>(count)}, one);
    const float scaler = local_scaler(statistics, count, kClip, ScalerRule::kPaper);
    const PackedCodes codes{
        TernaryFormat::kT2,
        {state->payload.data(), static_cast<std::size_t>(payload_bytes(TernaryFormat::kT2, count, 1))},
        count,
        1};
    return scaler == state->scalers[0] && codes_are_right(codes, values, scaler, kKey);
  };
  return subject;
}

}  // namespace

void register_encode() {
  for (const std::int64_t n : sizes()) {
    for (const int threads : thread_counts()) {
      register_subject(bench_name("encode_tensor", "f32", n, threads), n, threads, [n] { return encode_tensor(n); });
      for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
        register_subject(bench_name("encode_blocks", bench_type(type), n, threads), n, threads,
                         [=] { return encode_in_blocks(n, type); });
      }
    }
  }
}

}  // namespace terngrad::bench
