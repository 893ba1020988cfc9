#include "bench/elementwise.h"

#include <algorithm>
#include <memory>

#include "bench/gradients.h"

namespace terngrad::bench {
namespace {

ElementwiseArrays make_arrays(const ElementwiseOperation& operation, std::int64_t n, Stream& stream) {
  const std::span<const float> values = gradient(n);
  ElementwiseArrays arrays{.gradient = {operation.is_in_place ? values.first(0) : values, stream},
                           .slots = {},
                           .halves = zeros_on<std::uint16_t>(operation.has_halves ? n : 0, stream),
                           .flag = zeros_on<std::uint32_t>(1, stream),
                           .counter = zeros_on<std::int64_t>(1, stream)};
  if (operation.is_in_place) arrays.slots.push_back(on_device(values, stream));
  while (static_cast<int>(arrays.slots.size()) < operation.num_slots) {
    arrays.slots.push_back(zeros_on<float>(n, stream));
  }
  if (operation.prepare != nullptr) operation.prepare(arrays, stream);
  return arrays;
}

template <class T>
bool has_bits(std::span<const T> found, std::span<const T> expected, Stream& stream) {
  const std::vector<T> values = on_host(found, stream);
  return std::ranges::equal(bytes_of(std::span(values)), bytes_of(expected));
}

bool are_right(const ElementwiseOperation& operation, const ElementwiseArrays& found, std::int64_t n, Stream& stream) {
  Stream cpu;
  ElementwiseArrays expected = make_arrays(operation, n, cpu);
  operation.apply(expected, cpu);
  for (std::size_t i = 0; i < expected.slots.size(); ++i) {
    if (!has_bits<float>(found.slots[i].span(), expected.slots[i].span(), stream)) return false;
  }
  return has_bits<float>(found.gradient.span(), expected.gradient.span(), stream) &&
         has_bits<std::uint16_t>(found.halves.span(), expected.halves.span(), stream) &&
         has_bits<std::uint32_t>(found.flag.span(), expected.flag.span(), stream) &&
         has_bits<std::int64_t>(found.counter.span(), expected.counter.span(), stream) &&
         (!operation.is_right || operation.is_right(expected, gradient(n)));
}

Subject subject_of(const ElementwiseOperation& operation, std::int64_t n) {
  const auto elements = static_cast<double>(n);
  const int num_floats = operation.is_in_place ? operation.num_slots : operation.num_slots + 1;
  return {.bytes = operation.bytes * elements,
          .elements = elements,
          .set_bytes = (4.0 * num_floats + (operation.has_halves ? 2.0 : 0.0)) * elements,
          .prepare = [=](Stream& stream) {
            const auto arrays = std::make_shared<ElementwiseArrays>(make_arrays(operation, n, stream));
            return Work{.run = [apply = operation.apply, arrays, &stream] { apply(*arrays, stream); },
                        .check = [=, &stream] { return are_right(operation, *arrays, n, stream); }};
          }};
}

}  // namespace

void add_elementwise(Rows& rows, const ElementwiseOperation& operation, Devices devices) {
  rows.add(operation.name, "f32", [=](std::int64_t n) { return subject_of(operation, n); }, {.devices = devices});
}

}  // namespace terngrad::bench
