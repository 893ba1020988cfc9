#include "bench/cuda_elementwise.h"

#include <cstring>
#include <memory>

#include "bench/cuda_harness.h"
#include "bench/harness.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {
namespace {

template <class T>
Buffer<T> zeros_on(std::int64_t count, Stream& stream) {
  Buffer<T> buffer(count, stream.device());
  fill_zero(buffer.span(), stream);
  return buffer;
}

ElementwiseArrays make_arrays(const ElementwiseOperation& operation, std::int64_t n, Stream& stream) {
  ElementwiseArrays arrays;
  arrays.gradient = Buffer<float>(n, stream.device());
  copy<float>({gradient(n), static_cast<std::size_t>(n)}, arrays.gradient.span(), stream);
  for (int i = 0; i < operation.num_slots; ++i) arrays.slots.push_back(zeros_on<float>(n, stream));
  arrays.halves = zeros_on<std::uint16_t>(operation.has_halves ? n : 0, stream);
  arrays.flag = zeros_on<std::uint32_t>(1, stream);
  arrays.counter = zeros_on<std::int64_t>(1, stream);
  if (operation.prepare != nullptr) operation.prepare(arrays, stream);
  return arrays;
}

/// Whether device memory has the bytes of host memory.
template <class T>
bool has_bytes(const Buffer<T>& device, const Buffer<T>& host, Stream& stream) {
  Buffer<T> found(device.num_elements());
  copy<T>(device.span(), found.span(), stream);
  stream.synchronize();
  return device.num_elements() == host.num_elements() &&
         (host.num_elements() == 0 || std::memcmp(found.data(), host.data(), host.span().size_bytes()) == 0);
}

bool are_equal(const ElementwiseArrays& device, const ElementwiseArrays& host, Stream& stream) {
  for (std::size_t i = 0; i < host.slots.size(); ++i) {
    if (!has_bytes(device.slots[i], host.slots[i], stream)) return false;
  }
  return has_bytes(device.gradient, host.gradient, stream) && has_bytes(device.halves, host.halves, stream) &&
         has_bytes(device.flag, host.flag, stream) && has_bytes(device.counter, host.counter, stream);
}

CudaSubject subject_of(const ElementwiseOperation& operation, std::int64_t n) {
  const auto sets = std::make_shared<std::vector<std::unique_ptr<ElementwiseArrays>>>();
  CudaSubject subject;
  subject.elements = static_cast<double>(n);
  subject.bytes = operation.bytes * subject.elements;
  subject.prepare = [=](Stream& stream, int num_sets) {
    std::vector<std::function<void()>> works;
    for (int i = 0; i < num_sets; ++i) {
      sets->push_back(std::make_unique<ElementwiseArrays>(make_arrays(operation, n, stream)));
      works.emplace_back([apply = operation.apply, &arrays = *sets->back(), &stream] { apply(arrays, stream); });
    }
    return works;
  };
  subject.check = [=](Stream& stream) {
    Stream cpu;
    ElementwiseArrays expected = make_arrays(operation, n, cpu);
    operation.apply(expected, cpu);
    return are_equal(*sets->back(), expected, stream);
  };
  return subject;
}

}  // namespace

void register_cuda_elementwise(const ElementwiseOperation& operation) {
  for (const auto& [sizes, residency] :
       {std::pair(cuda_memory_sizes(), Residency::kMemory), std::pair(cuda_cache_sizes(), Residency::kCache)}) {
    for (const std::int64_t n : sizes) {
      const double array_bytes = 4.0 * (1 + operation.num_slots) + (operation.has_halves ? 2.0 : 0.0);
      register_cuda_subject(cuda_bench_name(operation.name, "f32", n), array_bytes * static_cast<double>(n), residency,
                            [=] { return subject_of(operation, n); });
    }
  }
}

}  // namespace terngrad::bench
