#include "kernels/factors/factor_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/factors/cuda/factor_steps.h"
#include "kernels/factors/factor_draws.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

/// Bit pattern of the largest magnitude; NaN counts as larger than infinity.
std::uint32_t max_bits_of(std::span<const float> values) {
  std::uint32_t max = 0;
  for (const float value : values) max = std::max(max, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
  return max;
}

void begin_on_cpu(const FactorBegin& task, const DrawKey& key) {
  for (std::int64_t j = 0; j < task.rank; ++j) {
    const std::int64_t at = j * task.columns;
    const std::span<float> column(task.q + at, static_cast<std::size_t>(task.columns));
    const std::uint32_t max_bits = task.kept == nullptr ? 0 : max_bits_of({task.kept + at, column.size()});
    if (max_bits == 0) {
      draw_factor(key, static_cast<std::uint64_t>(task.draw_offset + at), column);
      continue;
    }
    const double scale = kept_factor_scale(max_bits);
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = scaled_factor_element(task.kept[at + static_cast<std::int64_t>(i)], scale);
    }
  }
}

void write_flag(const FactorRounding& task) {
  const std::uint32_t max = max_bits_of({task.values, static_cast<std::size_t>(task.count)});
  *task.flag = max >= task.first_infinite() ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
}

void round_on_cpu(const FactorRounding& task) {
  if (task.type == ElementType::kFloat32) return;
  for (std::int64_t i = 0; i < task.count; ++i) task.values[i] = from_bfloat16(to_bfloat16(task.values[i]));
}

}  // namespace

FactorSteps::FactorSteps(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_factor_step_runner(device);
}

void FactorSteps::require(const Stream& stream) const {
  TERNGRAD_REQUIRE(stream.device() == device_, "[factors] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
}

void FactorSteps::begin(std::span<const FactorBegin> tasks, std::uint64_t seed, const DeviceStep& step,
                        Stream& stream) {
  require(stream);
  const DrawKey key{seed, step.step, 0, DrawPurpose::kFactorInit};
  if (device_.is_cuda()) return cuda_->begin(tasks, key, step.on_device, stream);
  TERNGRAD_REQUIRE(step.on_device == nullptr, "[factors] a step in device memory is for a GPU's stream");
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(tasks.size()), 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) begin_on_cpu(tasks[static_cast<std::size_t>(i)], key);
               });
}

void FactorSteps::round_first(std::span<const FactorRounding> tasks, Stream& stream) {
  require(stream);
  if (device_.is_cuda()) return cuda_->round(tasks, cuda::FactorRound::kFirst, stream);
  for (const FactorRounding& task : tasks) {
    write_flag(task);
    round_on_cpu(task);
  }
}

void FactorSteps::round_second(std::span<const FactorRounding> tasks, Stream& stream) {
  require(stream);
  if (device_.is_cuda()) return cuda_->round(tasks, cuda::FactorRound::kSecond, stream);
  for (const FactorRounding& task : tasks) {
    if (std::isnan(*task.flag)) {
      std::fill_n(task.values, task.count, 0.0f);
    } else {
      write_flag(task);
      round_on_cpu(task);
    }
  }
}

void FactorSteps::round_mean(std::span<const FactorRounding> tasks, Stream& stream) {
  require(stream);
  if (device_.is_cuda()) return cuda_->round(tasks, cuda::FactorRound::kMean, stream);
  for (const FactorRounding& task : tasks) round_on_cpu(task);
}

void FactorSteps::update_memory(std::span<const FactorMemoryTask> tasks, const std::uint32_t* skip, Stream& stream) {
  require(stream);
  if (device_.is_cuda()) return cuda_->update_memory(tasks, skip, stream);
  if (skip != nullptr && *skip != 0) return;
  for (const FactorMemoryTask& task : tasks) std::copy_n(task.from, task.count, task.to);
}

}  // namespace terngrad
