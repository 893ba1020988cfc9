// Packing of signs on a GPU.
#include "kernels/codes/signs.h"

#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "bench/harness.h"
#include "bench/sign_check.h"
#include "bench/typed_gradient.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

constexpr float kScaler = 0.01f;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

double set_bytes(std::int64_t n, ElementType type) {
  return static_cast<double>(element_bytes(type)) * static_cast<double>(n) +
         static_cast<double>(payload_bytes(CodeFormat::kBits, n, 1));
}

CudaSubject pack(std::int64_t n, ElementType type) {
  struct Set {
    Buffer<std::uint64_t> payload;
    SignPacker packer{Device::cuda()};
  };
  struct State {
    std::vector<Buffer<std::uint8_t>> gradients;
    std::vector<std::unique_ptr<Set>> sets;
    Buffer<float> scaler{1, Device::cuda()};
  };
  const auto state = std::make_shared<State>();
  const std::int64_t bytes = payload_bytes(CodeFormat::kBits, n, 1);
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = set_bytes(n, type);
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
      works.emplace_back([=, &set, &stream] { set.packer.run({&task, 1}, {}, kKey, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes + 7) / 8);
    copy<std::uint64_t>(state->sets.back()->payload.span(), words, stream);
    stream.synchronize();
    return signs_are_right({reinterpret_cast<const std::uint8_t*>(words.data()), static_cast<std::size_t>(bytes)}, n,
                           typed_gradient(type, n).values);
  };
  return subject;
}

}  // namespace

void register_cuda_signs() {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const auto& [sizes, residency] :
         {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
      for (const std::int64_t n : sizes) {
        register_cuda_subject(cuda_bench_name("signs", bench_type(type), n), set_bytes(n, type), residency,
                              [=] { return pack(n, type); });
      }
    }
  }
}

}  // namespace terngrad::bench
