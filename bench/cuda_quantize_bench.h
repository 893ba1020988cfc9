// Benchmarks of quantizing kernels on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/quantize_bench.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {

template <class Quantizer, class Options>
CudaSubject cuda_quantize_subject(std::int64_t n, const QuantizeBench<Options>& bench) {
  struct Set {
    Buffer<std::uint64_t> payload;
    Quantizer quantizer{Device::cuda()};
  };
  struct State {
    QuantizeBench<Options> bench;
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<std::unique_ptr<Set>> sets;
    Buffer<float> scaler{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  state->bench = bench;
  const std::int64_t bytes = bench.payload_bytes(n);
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = bench.moved_bytes(n);
  subject.prepare = [=](Stream& stream, int num_sets) {
    state->gradients = typed_gradients_on(stream, state->bench.type, n, num_sets);
    copy<float>({&state->bench.scaler, 1}, state->scaler.span(), stream);
    std::vector<std::function<void()>> works;
    for (Buffer<std::uint8_t>& gradient : state->gradients) {
      state->sets.push_back(std::make_unique<Set>());
      Set& set = *state->sets.back();
      set.payload = Buffer<std::uint64_t>((bytes + 7) / 8, Device::cuda());
      const QuantizeTask task{.gradient = gradient.data(),
                              .count = n,
                              .scalers = state->scaler.data(),
                              .payload = reinterpret_cast<std::uint8_t*>(set.payload.data()),
                              .type = state->bench.type};
      works.emplace_back([=, &set, &stream] {
        set.quantizer.run({&task, 1}, state->bench.options, kQuantizeKey, stream);
      });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes + 7) / 8);
    copy<std::uint64_t>(state->sets.back()->payload.span(), words, stream);
    stream.synchronize();
    return state->bench.is_right({reinterpret_cast<const std::uint8_t*>(words.data()), static_cast<std::size_t>(bytes)},
                                 n, typed_gradient(state->bench.type, n).values);
  };
  return subject;
}

/// Registers them for every size of memory and of the cache.
template <class Quantizer, class Options>
void register_cuda_quantizers(const std::vector<QuantizeBench<Options>>& benches) {
  for (const QuantizeBench<Options>& bench : benches) {
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        register_cuda_subject(cuda_bench_name(bench.name, bench_type(bench.type), n), bench.moved_bytes(n), residency,
                              [=] { return cuda_quantize_subject<Quantizer>(n, bench); });
      }
    }
  }
}

}  // namespace terngrad::bench
