#include "compress/codec/host_copies.h"

#include <utility>

#include "kernels/runtime/copy.h"

namespace terngrad {
namespace {

/// Alignment of tensors: whole cache lines, for any element type.
constexpr std::size_t kTensorAlignment = 64;

std::size_t room_of(const Segment& segment, ElementType type) {
  const std::size_t bytes = static_cast<std::size_t>(segment.num_elements) * element_bytes(type);
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace

HostCopies::HostCopies(const CoderSetup& setup, std::vector<int> segments)
    : layout_(setup.layout), device_(setup.device), segments_(std::move(segments)), cpu_(Device::cpu()) {}

std::span<const TensorTable> HostCopies::copy_gradients(std::span<const TensorTable> on_device, Stream& stream) {
  std::size_t bytes = 0;
  for (const TensorTable& gradient : on_device) {
    for (const int segment : segments_) bytes += room_of(layout_.segment(segment), gradient.type());
  }
  std::uint8_t* place = room(elements_, bytes).data();
  tables_.clear();
  for (const TensorTable& gradient : on_device) {
    std::vector<void*> tensors(static_cast<std::size_t>(layout_.num_segments()), nullptr);
    for (const int index : segments_) {
      const Segment& segment = layout_.segment(index);
      const std::size_t count = static_cast<std::size_t>(segment.num_elements) * element_bytes(gradient.type());
      copy<std::uint8_t>({static_cast<const std::uint8_t*>(gradient.data(index)), count}, std::span(place, count),
                         stream);
      tensors[static_cast<std::size_t>(index)] = place;
      place += room_of(segment, gradient.type());
    }
    tables_.emplace_back(layout_, gradient.type(), tensors);
  }
  stream.synchronize();
  return tables_;
}

std::uint64_t HostCopies::number_of(const DeviceStep& step, Stream& stream) {
  if (step.on_device == nullptr) return step.step;
  std::uint64_t number = 0;
  copy<std::uint64_t>({step.on_device, 1}, std::span(&number, 1), stream);
  stream.synchronize();
  return number;
}

}  // namespace terngrad
