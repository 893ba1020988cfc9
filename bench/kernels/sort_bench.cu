// The competitor of choosing the elements of largest magnitude on a GPU: sorting all of them, by CUB's radix sort. Its
// result must be in order for Thrust, and made of the gradient's elements, which the host looks up.
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "kernels/runtime/cuda/check.h"

namespace terngrad::bench {
namespace {

constexpr int kMagnitudeBits = 31;

struct Set {
  Buffer<std::uint32_t> magnitudes, places, sorted_magnitudes, sorted_places;
  std::size_t temporary_bytes = 0;
  Buffer<std::uint8_t> temporary = {};

  /// Without memory it sets temporary_bytes. Radix sort is stable: of equal magnitudes the first comes first.
  void sort(Stream& stream) {
    TERNGRAD_CUDA_CHECK(cub::DeviceRadixSort::SortPairsDescending(
        temporary.data(), temporary_bytes, magnitudes.data(), sorted_magnitudes.data(), places.data(),
        sorted_places.data(), magnitudes.num_elements(), 0, kMagnitudeBits,
        static_cast<cudaStream_t>(stream.native())));
  }

  bool is_sorted(Stream& stream) {
    const std::vector<std::uint32_t> unsorted = on_host(magnitudes.span(), stream);
    const std::vector<std::uint32_t> found = on_host(sorted_magnitudes.span(), stream);
    const std::vector<std::uint32_t> from = on_host(sorted_places.span(), stream);
    if (!thrust::is_sorted(thrust::cuda::par.on(static_cast<cudaStream_t>(stream.native())), sorted_magnitudes.data(),
                           sorted_magnitudes.data() + sorted_magnitudes.num_elements(),
                           thrust::greater<std::uint32_t>())) {
      return false;
    }
    std::vector<bool> is_there(unsorted.size());
    for (std::size_t i = 0; i < unsorted.size(); ++i) {
      if (from[i] >= unsorted.size() || is_there[from[i]] || unsorted[from[i]] != found[i]) return false;
      is_there[from[i]] = true;
      // The first of equal magnitudes comes first.
      if (i > 0 && found[i] == found[i - 1] && from[i] < from[i - 1]) return false;
    }
    return true;
  }
};

Subject radix_sort(std::int64_t n) {
  const auto prepare = [=](Stream& stream) {
    std::vector<std::uint32_t> bits;
    for (const float value : gradient(n)) bits.push_back(std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
    std::vector<std::uint32_t> numbers(bits.size());
    std::iota(numbers.begin(), numbers.end(), 0u);
    const auto set = std::make_shared<Set>(
        Set{on_device(std::span(bits), stream), on_device(std::span(numbers), stream),
            Buffer<std::uint32_t>(n, stream.device()), Buffer<std::uint32_t>(n, stream.device())});
    set->sort(stream);
    set->temporary = Buffer<std::uint8_t>(static_cast<std::int64_t>(set->temporary_bytes), stream.device());
    return Work{[=, &stream] { set->sort(stream); }, [=, &stream] { return set->is_sorted(stream); }};
  };
  const auto elements = static_cast<double>(n);
  Subject subject;
  // A histogram, and four passes of 8 bits over keys and places.
  subject.bytes = (4.0 + 4 * 16.0) * elements;
  subject.elements = elements;
  subject.set_bytes = 16 * elements;
  subject.num_launches = 6;
  subject.prepare = prepare;
  return subject;
}

const Registration registration(__FILE__, [](Rows& rows) {
  Limits limits;
  limits.devices = Devices::kCuda;
  limits.memory_only = true;
  rows.add("radix_sort_of_magnitudes", "u32", radix_sort, limits);
});

}  // namespace
}  // namespace terngrad::bench
