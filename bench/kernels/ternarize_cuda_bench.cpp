#include "kernels/codes/ternarize.h"

#include <memory>
#include <string>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "bench/ternary_check.h"
#include "bench/typed_gradient.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr int kWorkers = 8;
constexpr float kScaler = 0.025f;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kTernarize};

/// tmask is not here: its size depends on the data, so it is no part of a graph.
CudaSubject ternarize_subject(std::int64_t n, const TernarizeOptions& options, ElementType type) {
  const TernaryFormat format = options.format;
  struct Set {
    Buffer<std::uint64_t> payload;
    Ternarizer ternarizer{Device::cuda()};
  };
  struct State {
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<std::unique_ptr<Set>> sets;
    Buffer<float> scaler{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(format, n, kWorkers);
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n) + static_cast<double>(bytes);
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = typed_gradients_on(stream, type, n, num_sets);
    copy<float>({&kScaler, 1}, state->scaler.span(), stream);
    std::vector<std::function<void()>> works;
    for (Buffer<std::uint8_t>& gradient : state->gradients) {
      state->sets.push_back(std::make_unique<Set>());
      Set& set = *state->sets.back();
      set.payload = Buffer<std::uint64_t>((bytes + 7) / 8, Device::cuda());
      const TernarizeTask task{.gradient = gradient.data(),
                               .count = n,
                               .scalers = state->scaler.data(),
                               .payload = reinterpret_cast<std::uint8_t*>(set.payload.data()),
                               .type = type};
      works.emplace_back([=, &set, &stream] {
        std::int64_t written = 0;
        set.ternarizer.run({&task, 1}, options, kKey, {&written, 1}, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes + 7) / 8);
    copy<std::uint64_t>(state->sets.back()->payload.span(), words, stream);
    stream.synchronize();
    const PackedCodes codes{
        format, {reinterpret_cast<const std::uint8_t*>(words.data()), static_cast<std::size_t>(bytes)}, n, kWorkers};
    return codes_are_right(codes, typed_gradient(type, n).values, kScaler, kKey, 0, options.rounding);
  };
  return subject;
}

}  // namespace

void register_cuda_ternarize() {
  const auto add = [](TernaryFormat format, ElementType type, Rounding rounding = Rounding::kStochastic) {
    const TernarizeOptions options{.format = format, .num_workers = kWorkers, .rounding = rounding};
    const std::string name = "ternarize_" + to_string(format) + (rounding == Rounding::kNearest ? "_nearest" : "");
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        const double set_bytes = (static_cast<double>(element_bytes(type)) + 0.25) * static_cast<double>(n);
        register_cuda_subject(cuda_bench_name(name, bench_type(type), n), set_bytes, residency,
                              [=] { return ternarize_subject(n, options, type); });
      }
    }
  };
  for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kLanes}) {
    add(format, ElementType::kFloat32);
  }
  add(TernaryFormat::kT2, ElementType::kBfloat16);
  add(TernaryFormat::kT2, ElementType::kFloat32, Rounding::kNearest);
}

}  // namespace terngrad::bench
