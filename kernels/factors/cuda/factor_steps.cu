// Factor steps on a GPU. Factors are small, so one block handles a column or a whole factor.
#include "kernels/factors/cuda/factor_steps.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/factors/factor_draws.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kCopyThreads = 256;
constexpr std::int64_t kCopiedPerBlock = 4 * std::int64_t{kCopyThreads};

/// A column of a factor, or part of a kept one.
struct Column {
  const float* from;
  float* to;
  std::int64_t count;
  std::int64_t draw_index;  // draw index of the first element
};

/// FactorRounding in the form for kernels.
struct Factor {
  float* values;
  float* flag;
  std::int64_t count;
  std::uint32_t first_infinite;
  std::uint32_t is_bfloat16;
};

__global__ void __launch_bounds__(kThreads)
    factor_begin_kernel(const Column* __restrict__ columns, DrawKey key, const std::uint64_t* __restrict__ step) {
  const Column column = columns[blockIdx.x];
  if (column.from != nullptr) {
    __shared__ unsigned shared_max;
    unsigned max_bits = 0;
    for (std::int64_t i = threadIdx.x; i < column.count; i += kThreads) {
      max_bits = max(max_bits, __float_as_uint(column.from[i]) & 0x7fffffffu);
    }
    max_bits = block_reduce<kThreads>(max_bits, [](unsigned a, unsigned b) { return max(a, b); });
    if (threadIdx.x == 0) shared_max = max_bits;
    __syncthreads();
    max_bits = shared_max;
    if (max_bits != 0) {
      const double scale = kept_factor_scale(max_bits);
      for (std::int64_t i = threadIdx.x; i < column.count; i += kThreads) {
        column.to[i] = scaled_factor_element(column.from[i], scale);
      }
      return;
    }
  }
  if (step != nullptr) key.step = *step;
  for (std::int64_t i = threadIdx.x; i < column.count; i += kThreads) {
    column.to[i] = draw_factor_element(key, static_cast<std::uint64_t>(column.draw_index + i));
  }
}

template <FactorRound kWhich>
__global__ void __launch_bounds__(kThreads) factor_round_kernel(const Factor* __restrict__ factors) {
  const Factor factor = factors[blockIdx.x];
  bool is_zero = false;
  if constexpr (kWhich == FactorRound::kSecond) {
    const float flag = *factor.flag;
    is_zero = flag != flag;
  }
  int is_infinite = 0;
  for (std::int64_t i = threadIdx.x; i < factor.count; i += kThreads) {
    const float value = factor.values[i];
    is_infinite |= (__float_as_uint(value) & 0x7fffffffu) >= factor.first_infinite ? 1 : 0;
    if (is_zero) {
      factor.values[i] = 0;
    } else if (factor.is_bfloat16 != 0) {
      factor.values[i] = from_bfloat16(to_bfloat16(value));
    }
  }
  if constexpr (kWhich != FactorRound::kMean) {
    is_infinite = __syncthreads_or(is_infinite);
    if (threadIdx.x == 0 && !is_zero) *factor.flag = __uint_as_float(is_infinite != 0 ? 0x7fc00000u : 0u);
  }
}

__global__ void __launch_bounds__(kCopyThreads)
    factor_keep_kernel(const Column* __restrict__ columns, const std::uint32_t* __restrict__ skip) {
  if (skip != nullptr && *skip != 0) return;
  const Column column = columns[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < column.count; i += kCopyThreads) column.to[i] = column.from[i];
}

class Runner final : public FactorStepRunner {
 public:
  explicit Runner(const Device& device)
      : begun_table_(device),
        rounded_tables_{UploadedTable<Factor>(device), UploadedTable<Factor>(device), UploadedTable<Factor>(device)},
        kept_table_(device) {}

  void begin(std::span<const FactorBegin> tasks, const DrawKey& key, const std::uint64_t* device_step,
             Stream& stream) override {
    columns_.clear();
    for (const FactorBegin& task : tasks) {
      for (std::int64_t j = 0; j < task.rank; ++j) {
        const std::int64_t at = j * task.columns;
        columns_.push_back(
            {task.kept == nullptr ? nullptr : task.kept + at, task.q + at, task.columns, task.draw_offset + at});
      }
    }
    launch(factor_begin_kernel, grid_of(columns_.size()), dim3(kThreads), 0, stream,
           begun_table_.on_device(columns_, stream), key, device_step);
  }

  void round(std::span<const FactorRounding> tasks, FactorRound which, Stream& stream) override {
    factors_.clear();
    for (const FactorRounding& task : tasks) {
      factors_.push_back(
          {task.values, task.flag, task.count, task.first_infinite(), task.type == ElementType::kBfloat16 ? 1u : 0u});
    }
    UploadedTable<Factor>& table = rounded_tables_[static_cast<std::size_t>(which)];
    const auto run = [&](auto kernel) {
      launch(kernel, grid_of(factors_.size()), dim3(kThreads), 0, stream, table.on_device(factors_, stream));
    };
    if (which == FactorRound::kFirst) run(factor_round_kernel<FactorRound::kFirst>);
    if (which == FactorRound::kSecond) run(factor_round_kernel<FactorRound::kSecond>);
    if (which == FactorRound::kMean) run(factor_round_kernel<FactorRound::kMean>);
  }

  void update_memory(std::span<const FactorMemoryTask> tasks, const std::uint32_t* skip, Stream& stream) override {
    columns_.clear();
    for (const FactorMemoryTask& task : tasks) {
      for (std::int64_t first = 0; first < task.count; first += kCopiedPerBlock) {
        columns_.push_back({task.from + first, task.to + first, std::min(kCopiedPerBlock, task.count - first), 0});
      }
    }
    launch(factor_keep_kernel, grid_of(columns_.size()), dim3(kCopyThreads), 0, stream,
           kept_table_.on_device(columns_, stream), skip);
  }

 private:
  static dim3 grid_of(std::size_t blocks) { return {num_blocks_for(static_cast<std::int64_t>(blocks), 1)}; }

  std::vector<Column> columns_;
  std::vector<Factor> factors_;
  UploadedTable<Column> begun_table_;
  std::array<UploadedTable<Factor>, 3> rounded_tables_;  // indexed by FactorRound
  UploadedTable<Column> kept_table_;
};

}  // namespace

std::shared_ptr<FactorStepRunner> make_factor_step_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
