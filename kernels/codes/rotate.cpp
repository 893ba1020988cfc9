#include "kernels/codes/rotate.h"

#include <algorithm>
#include <bit>

#include "kernels/codes/cuda/rotate.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/cpu/widened_chunk.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

/// Checks tasks and returns their common element type. @throws InvalidArgument as Rotator::run
ElementType check_tasks(std::span<const RotateTask> tasks) {
  for (const RotateTask& task : tasks) {
    TERNGRAD_REQUIRE(task.first % kChunkElements == 0, "[rotate] a slice must begin at a multiple of ", kChunkElements,
                     ", got ", task.first);
    TERNGRAD_REQUIRE(task.draw_offset % kDrawAlignment == 0, "[rotate] draw_offset must be a multiple of ",
                     kDrawAlignment, ", got ", task.draw_offset);
    TERNGRAD_REQUIRE(task.type == tasks.front().type, "[rotate] tasks of one call have one element type, got ",
                     element_type_name(tasks.front().type), " and ", element_type_name(task.type));
    require_aligned_elements(task.values, task.type, "rotate");
    require_aligned_elements(task.out, ElementType::kFloat32, "rotate");
  }
  return tasks.empty() ? ElementType::kFloat32 : tasks.front().type;
}

void rotate_on_cpu(std::span<const RotateTask> tasks, std::int64_t run_elements, Rotation rotation, const DrawKey& key,
                   Stream& stream) {
  const auto chunks_of = [](const RotateTask& task) { return (task.count + kChunkElements - 1) / kChunkElements; };
  std::int64_t num_chunks = 0;
  for (const RotateTask& task : tasks) num_chunks += chunks_of(task);
  parallel_for(stream.num_threads(), num_chunks, 4, [&](std::int64_t begin, std::int64_t end) {
    cpu::WidenedChunk widened;
    std::int64_t index = 0;  // first chunk of the task
    for (const RotateTask& task : tasks) {
      const std::int64_t task_chunks = chunks_of(task);
      for (std::int64_t c = std::max(begin, index); c < std::min(end, index + task_chunks); ++c) {
        const std::int64_t at = (c - index) * kChunkElements;
        const std::int64_t count = std::min(kChunkElements, task.count - at);
        cpu::rotate_chunk(widened.of(task.values, task.type, at, count), count, run_elements,
                          rotation == Rotation::kForward, key,
                          static_cast<std::uint64_t>(task.draw_offset + task.first + at), task.out + at);
      }
      index += task_chunks;
    }
  });
}

/// Tasks of the tails' second transform: each is one run, with the signs from the tail's first element on.
void find_mixed_tails(std::span<const RotateTask> tasks, std::int64_t run_elements, Rotation rotation,
                      std::vector<RotateTask>& mixed) {
  mixed.clear();
  for (const RotateTask& task : tasks) {
    const std::int64_t tail = task.count % run_elements;
    const std::int64_t count = mixed_elements(tail);
    if (count == 0) continue;
    TERNGRAD_REQUIRE(rotation == Rotation::kForward || task.values == task.out,
                     "[rotate] a tail that is rotated twice is turned back in place");
    float* const last = task.out + task.count - count;
    mixed.push_back({.values = last,
                     .first = task.first + task.count - tail,
                     .count = count,
                     .draw_offset = task.draw_offset,
                     .out = last});
  }
}

}  // namespace

void require_rotation(std::int64_t run_elements) {
  TERNGRAD_REQUIRE(run_elements == 0 || (run_elements >= kMinRotationElements && run_elements <= kMaxRotationElements &&
                                         std::has_single_bit(static_cast<std::uint64_t>(run_elements))),
                   "[rotate] runs must have a power of two of elements from ", kMinRotationElements, " to ",
                   kMaxRotationElements, ", got ", run_elements);
}

Rotator::Rotator(std::int64_t run_elements, Device device, TailRotation tails)
    : run_elements_(run_elements), device_(device), tails_(tails) {
  TERNGRAD_REQUIRE(run_elements != 0, "[rotate] runs must have a power of two of elements, got 0");
  require_rotation(run_elements);
  if (!device.is_cuda()) return;
  cuda_ = cuda::make_rotate_runner(run_elements, device);
  if (tails == TailRotation::kTwice) cuda_mixed_ = cuda::make_rotate_runner(run_elements, device);
}

void Rotator::run(std::span<const RotateTask> tasks, Rotation rotation, DrawKey key, Stream& stream,
                  const std::uint64_t* device_step) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[rotate] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[rotate] device_step is for a GPU's stream");
  const ElementType type = check_tasks(tasks);
  key.worker = 0;
  key.purpose = DrawPurpose::kRotate;
  const auto rotate_runs = [&] {
    if (device_.is_cuda()) return cuda_->run(tasks, type, rotation, key, device_step, stream);
    rotate_on_cpu(tasks, run_elements_, rotation, key, stream);
  };
  if (tails_ == TailRotation::kOnce) return rotate_runs();
  find_mixed_tails(tasks, run_elements_, rotation, mixed_);
  const auto mix = [&] {
    if (mixed_.empty()) return;
    if (device_.is_cuda()) return cuda_mixed_->run(mixed_, ElementType::kFloat32, rotation, key, device_step, stream);
    rotate_on_cpu(mixed_, run_elements_, rotation, key, stream);
  };
  if (rotation == Rotation::kBackward) mix();
  rotate_runs();
  if (rotation == Rotation::kForward) mix();
}

}  // namespace terngrad
