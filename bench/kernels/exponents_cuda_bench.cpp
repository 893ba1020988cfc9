// Rounding to powers of two on a GPU.
#include "kernels/codes/exponents.h"

#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/exponent_check.h"
#include "bench/harness.h"
#include "bench/typed_gradient.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr float kScaler = 0.0625f;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

CudaSubject quantize(std::int64_t n, const ExponentOptions& options, ElementType type) {
  struct Set {
    Buffer<std::uint64_t> payload;
    ExponentQuantizer quantizer{Device::cuda()};
  };
  struct State {
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<std::unique_ptr<Set>> sets;
    Buffer<float> scaler{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(exponent_format(options.bits), n, 1);
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
      const QuantizeTask task{.gradient = gradient.data(),
                              .count = n,
                              .scalers = state->scaler.data(),
                              .payload = reinterpret_cast<std::uint8_t*>(set.payload.data()),
                              .type = type};
      works.emplace_back([=, &set, &stream] { set.quantizer.run({&task, 1}, options, kKey, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes + 7) / 8);
    copy<std::uint64_t>(state->sets.back()->payload.span(), words, stream);
    stream.synchronize();
    return exponents_are_right({reinterpret_cast<const std::uint8_t*>(words.data()), static_cast<std::size_t>(bytes)},
                               n, options, typed_gradient(type, n).values, kScaler);
  };
  return subject;
}

}  // namespace

void register_cuda_exponents() {
  const auto add = [](const ExponentOptions& options, ElementType type) {
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        const double set_bytes = static_cast<double>(element_bytes(type)) * static_cast<double>(n) +
                                 static_cast<double>(payload_bytes(exponent_format(options.bits), n, 1));
        register_cuda_subject(
            cuda_bench_name("quantize_" + to_string(exponent_format(options.bits)), bench_type(type), n), set_bytes,
            residency, [=] { return quantize(n, options, type); });
      }
    }
  };
  add({.bits = 8}, ElementType::kFloat32);
  add({.bits = 4}, ElementType::kFloat32);
}

}  // namespace terngrad::bench
