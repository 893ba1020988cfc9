// What choosing the elements of largest magnitude competes with on a GPU: sorting all of them, by CUB's radix sort.
// What it gives must be in order for Thrust, and the gradient's, which the host looks up.
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <cub/device/device_radix_sort.cuh>
#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/cuda_subjects.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/cuda/check.h"

namespace terngrad::bench {
namespace {

constexpr int kMagnitudeBits = 31;

struct Set {
  Buffer<std::uint32_t> magnitudes, places, sorted_magnitudes, sorted_places;
  Buffer<std::uint8_t> temporary;

  void sort(std::size_t& bytes, void* memory, Stream& stream) {
    // Radix sort is stable: of equal magnitudes the first comes first.
    TERNGRAD_CUDA_CHECK(cub::DeviceRadixSort::SortPairsDescending(
        memory, bytes, magnitudes.data(), sorted_magnitudes.data(), places.data(), sorted_places.data(),
        magnitudes.num_elements(), 0, kMagnitudeBits, static_cast<cudaStream_t>(stream.native())));
  }
};

CudaSubject radix_sort(std::int64_t n) {
  const auto sets = std::make_shared<std::vector<std::unique_ptr<Set>>>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  // A histogram, and four passes of 8 bits over keys and places.
  subject.bytes = (4.0 + 4 * 16.0) * static_cast<double>(n);
  subject.num_launches = 6;
  subject.prepare = [=](Stream& stream, int num_sets) {
    std::vector<std::function<void()>> works;
    for (const Buffer<float>& gradient : gradients_on(stream, n, num_sets)) {
      Set& set = *sets->emplace_back(std::make_unique<Set>());
      std::vector<std::uint32_t> bits(static_cast<std::size_t>(n));
      copy<std::uint32_t>({reinterpret_cast<const std::uint32_t*>(gradient.data()), bits.size()}, std::span(bits),
                          stream);
      stream.synchronize();
      std::vector<std::uint32_t> numbers(bits.size());
      for (std::size_t i = 0; i < bits.size(); ++i) {
        bits[i] &= 0x7fffffffu;
        numbers[i] = static_cast<std::uint32_t>(i);
      }
      for (Buffer<std::uint32_t>* buffer : {&set.magnitudes, &set.places, &set.sorted_magnitudes, &set.sorted_places}) {
        *buffer = Buffer<std::uint32_t>(n, stream.device());
      }
      copy<std::uint32_t>(bits, set.magnitudes.span(), stream);
      copy<std::uint32_t>(numbers, set.places.span(), stream);
      std::size_t bytes = 0;
      set.sort(bytes, nullptr, stream);
      set.temporary = Buffer<std::uint8_t>(static_cast<std::int64_t>(bytes), stream.device());
      works.emplace_back([&set, bytes, &stream]() mutable { set.sort(bytes, set.temporary.data(), stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    Set& set = *sets->back();
    const auto on_host = [&](const Buffer<std::uint32_t>& values) {
      std::vector<std::uint32_t> result(static_cast<std::size_t>(n));
      copy<std::uint32_t>(values.span(), std::span(result), stream);
      stream.synchronize();
      return result;
    };
    const std::vector<std::uint32_t> unsorted = on_host(set.magnitudes);
    const std::vector<std::uint32_t> magnitudes = on_host(set.sorted_magnitudes);
    const std::vector<std::uint32_t> places = on_host(set.sorted_places);
    if (!thrust::is_sorted(thrust::cuda::par.on(static_cast<cudaStream_t>(stream.native())),
                           set.sorted_magnitudes.data(), set.sorted_magnitudes.data() + n,
                           thrust::greater<std::uint32_t>())) {
      return false;
    }
    std::vector<bool> is_there(unsorted.size());
    for (std::size_t i = 0; i < unsorted.size(); ++i) {
      if (places[i] >= unsorted.size() || is_there[places[i]] || unsorted[places[i]] != magnitudes[i]) return false;
      is_there[places[i]] = true;
      // Of equal magnitudes the first comes first.
      if (i > 0 && magnitudes[i] == magnitudes[i - 1] && places[i] < places[i - 1]) return false;
    }
    return true;
  };
  return subject;
}

}  // namespace

void register_cuda_sort() {
  for (const std::int64_t n : cuda_memory_sizes()) {
    register_cuda_subject(cuda_bench_name("radix_sort_of_magnitudes", "u32", n), 16.0 * static_cast<double>(n),
                          Residency::kMemory, [=] { return radix_sort(n); });
  }
}

}  // namespace terngrad::bench
