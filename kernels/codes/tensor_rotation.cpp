#include "kernels/codes/tensor_rotation.h"

#include <algorithm>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Tensors begin at multiples of this many elements, for aligned vector accesses.
constexpr std::int64_t kAlignment = 64;

std::int64_t room_of(std::int64_t num_elements) { return (num_elements + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

TensorRotation::TensorRotation(std::int64_t run_elements, const Layout& layout, std::span<const int> segments,
                               int num_workers, std::uint64_t seed, Device device, TailRotation tails)
    : layout_(layout),
      segments_(segments.begin(), segments.end()),
      seed_(seed),
      forward_(run_elements, device, tails),
      of_means_(run_elements, device, tails),
      of_slices_(run_elements, device, tails) {
  std::int64_t each = 0;
  for (const int segment : segments_) each += room_of(layout.segment(segment).num_elements);
  elements_ = Buffer<float>(each * num_workers, device);
  if (device.is_cuda()) step_on_device_ = Buffer<std::uint64_t>(1, device);
  float* next = elements_.data();
  std::vector<float*> tensors(static_cast<std::size_t>(layout.num_segments()), nullptr);
  for (int worker = 0; worker < num_workers; ++worker) {
    for (const int segment : segments_) {
      tensors[static_cast<std::size_t>(segment)] = next;
      next += room_of(layout.segment(segment).num_elements);
    }
    tables_.emplace_back(layout, std::span<float* const>(tensors));
  }
}

RotateTask TensorRotation::task_of(const Slice& slice, const void* values, ElementType type, float* out) const {
  return {.values = values,
          .first = slice.first,
          .count = slice.count,
          .draw_offset = layout_.segment(slice.segment).draw_offset,
          .out = out,
          .type = type};
}

void TensorRotation::rotate(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) {
  TERNGRAD_REQUIRE(gradients.size() == tables_.size(), "[rotate] made for the gradients of ", tables_.size(),
                   " workers, got ", gradients.size());
  step_ = step;
  if (step.on_device != nullptr) {
    // A copy, because the device may already be in the next step when results are rotated back.
    copy<std::uint64_t>({step.on_device, 1}, step_on_device_.span(), stream);
    step_.on_device = step_on_device_.data();
  }
  tasks_.clear();
  for (std::size_t worker = 0; worker < tables_.size(); ++worker) {
    for (const int segment : segments_) {
      const Slice whole{segment, 0, layout_.segment(segment).num_elements};
      if (whole.count == 0) continue;
      tasks_.push_back(
          task_of(whole, gradients[worker].data(segment), gradients[worker].type(), tables_[worker].tensor(segment)));
    }
  }
  forward_.run(tasks_, Rotation::kForward, {.seed = seed_, .step = step.step}, stream, step.on_device);
}

void TensorRotation::run_back(Rotator& rotator, const DeviceStep& step, Stream& stream) {
  rotator.run(tasks_, Rotation::kBackward, {.seed = seed_, .step = step.step}, stream, step.on_device);
}

void TensorRotation::turn_back(const TensorTable& values, std::span<const Slice> slices, const DeviceStep& step,
                               Stream& stream) {
  tasks_.clear();
  for (const Slice& slice : slices) {
    if (slice.count == 0 || !std::ranges::binary_search(segments_, slice.segment)) continue;
    float* const elements = values.slice(slice);
    tasks_.push_back(task_of(slice, elements, ElementType::kFloat32, elements));
  }
  run_back(of_means_, step, stream);
}

void TensorRotation::turn_back(std::span<float* const> values, std::span<const Slice> slices, Stream& stream) {
  tasks_.clear();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].count == 0) continue;
    tasks_.push_back(task_of(slices[i], values[i], ElementType::kFloat32, values[i]));
  }
  run_back(of_slices_, step_, stream);
}

}  // namespace terngrad
