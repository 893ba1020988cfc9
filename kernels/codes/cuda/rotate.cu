// Rotation on a GPU: one block per chunk. In each of three rounds a thread holds in registers the elements that four
// strides combine; shared memory exchanges them between rounds.
#include "kernels/codes/cuda/rotate.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/draws.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/tensor/cuda/elements.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kChunk = kChunkElements;
/// Elements per thread, and strides per round.
constexpr unsigned kEach = kChunk / kThreads;
constexpr unsigned kLevels = 4;
static_assert(kEach == 1u << kLevels);
/// Draw blocks with the signs of a chunk, including one for a chunk that begins in the middle of a draw block.
constexpr unsigned kSignBlocks = kChunk / 128 + 1;

struct Task {
  std::int64_t first_tile;  // in chunks
  std::int64_t count;
  std::uint64_t first_draw;
  const void* values;
  float* out;
};

/// Position of an element in shared memory, with a gap after every 16. Free of bank conflicts for warps that read 16
/// consecutive elements per thread, or one element in 16.
__device__ unsigned place_of(unsigned element) { return element + element / kEach; }

/// Lengths of the runs in a chunk.
struct Runs {
  std::uint32_t run;    // R
  std::uint32_t count;  // elements of the chunk
  std::uint32_t tail;   // count mod R

  /// Length of an element's run. @param element  below count
  __device__ std::uint32_t of(std::uint32_t element) const {
    const std::uint32_t whole = count - tail;
    return element < whole ? run : 1u << (31 - __clz(static_cast<int>((element - whole) ^ tail)));
  }
  /// True if `element` and `element + stride` are a butterfly pair within one run. @param element  the lower of the two
  __device__ bool has_pair(std::uint32_t element, std::uint32_t stride) const {
    return tail == 0 ? stride < run && element < count : element < count && stride < of(element);
  }
};

/// Butterflies with strides kFirst, 2 kFirst, 4 kFirst and 8 kFirst on the elements base + i kFirst.
template <unsigned kFirst>
__device__ void butterflies(float (&x)[kEach], unsigned base, const Runs& runs) {
#pragma unroll
  for (unsigned level = 0; level < kLevels; ++level) {
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      const unsigned stride = 1u << level;
      if ((i & stride) != 0) continue;
      if (!runs.has_pair(base + i * kFirst, stride * kFirst)) continue;
      const float a = x[i];
      const float b = x[i + stride];
      x[i] = __fadd_rn(a, b);
      x[i + stride] = __fsub_rn(a, b);
    }
  }
}

/// A round that reads from and writes to shared memory.
template <unsigned kFirst>
__device__ void round_in(float* shared, unsigned base, const Runs& runs) {
  float x[kEach];
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) x[i] = shared[place_of(base + i * kFirst)];
  butterflies<kFirst>(x, base, runs);
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) shared[place_of(base + i * kFirst)] = x[i];
}

/// rotation_scale() for a run.
__device__ inline float scale_of(std::uint32_t run) {
  const int exponent = 31 - __clz(static_cast<int>(run));
  const float scale = __uint_as_float(static_cast<std::uint32_t>(127 - exponent / 2) << 23);
  return exponent % 2 == 0 ? scale : __fmul_rn(scale, 0x1.6a09e6p-1f);
}

template <class Element, bool kForward>
__global__ void __launch_bounds__(kThreads)
    rotate_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks, std::uint32_t run, DrawStream stream) {
  __shared__ float shared[kChunk + kThreads];
  __shared__ std::uint32_t signs[kSignBlocks * 4];
  const Task task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t begin = (blockIdx.x - task.first_tile) * std::int64_t{kChunk};
  const auto count = static_cast<std::uint32_t>(min(task.count - begin, std::int64_t{kChunk}));
  const Runs runs{run, count, count % run};
  const std::uint64_t draw = task.first_draw + static_cast<std::uint64_t>(begin);
  const auto skipped = static_cast<unsigned>(draw % 128);
  const unsigned t = threadIdx.x;
  if (t < kSignBlocks) {
    const uint4 words = draw_block(stream, step_of(stream), 0, stream.purpose, draw / 128 + t);
    signs[4 * t] = words.x;
    signs[4 * t + 1] = words.y;
    signs[4 * t + 2] = words.z;
    signs[4 * t + 3] = words.w;
  }
  __syncthreads();
  const auto with_sign = [&](float value, unsigned element) {
    const unsigned bit = skipped + element;
    const std::uint32_t sign = signs[bit / 32] >> (bit % 32) << 31;
    return __uint_as_float(__float_as_uint(value) ^ sign);
  };
  const Element* values = static_cast<const Element*>(task.values) + begin;
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) {
    const unsigned element = t + i * kThreads;
    const float value = element < count ? widened(values[element]) : 0.0f;
    shared[place_of(element)] = kForward ? with_sign(value, element) : value;
  }
  __syncthreads();
  round_in<1>(shared, t * kEach, runs);
  __syncthreads();
  round_in<kEach>(shared, t / kEach * kThreads + t % kEach, runs);
  __syncthreads();
  float x[kEach];
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) x[i] = shared[place_of(t + i * kThreads)];
  if (run > kThreads) butterflies<kThreads>(x, t, runs);
  float* out = task.out + begin;
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) {
    const unsigned element = t + i * kThreads;
    if (element >= count) continue;
    const float value = __fmul_rn(x[i], scale_of(runs.of(element)));
    out[element] = kForward ? value : with_sign(value, element);
  }
}

class Runner final : public RotateRunner {
 public:
  Runner(std::int64_t run_elements, const Device& device)
      : run_elements_(static_cast<std::uint32_t>(run_elements)), tasks_table_(device) {}

  void run(std::span<const RotateTask> tasks, ElementType type, Rotation rotation, const DrawKey& key,
           const std::uint64_t* device_step, Stream& stream) override {
    tasks_.clear();
    std::int64_t num_tiles = 0;
    for (const RotateTask& task : tasks) {
      if (task.count == 0) continue;
      tasks_.push_back(
          {num_tiles, task.count, static_cast<std::uint64_t>(task.draw_offset + task.first), task.values, task.out});
      num_tiles += (task.count + kChunkElements - 1) / kChunkElements;
    }
    const Task* const on_device = tasks_table_.on_device(tasks_, stream);
    const DrawStream draws = make_draw_stream(key, device_step);
    with_element(type, [&](auto element) {
      using Element = decltype(element);
      const auto kernel = rotation == Rotation::kForward ? rotate_kernel<Element, true> : rotate_kernel<Element, false>;
      launch(kernel, dim3(num_blocks_for(num_tiles, 1)), dim3(kThreads), 0, stream, on_device,
             static_cast<std::int32_t>(tasks_.size()), run_elements_, draws);
    });
  }

 private:
  std::uint32_t run_elements_;
  std::vector<Task> tasks_;
  UploadedTable<Task> tasks_table_;
};

}  // namespace

std::shared_ptr<RotateRunner> make_rotate_runner(std::int64_t run_elements, const Device& device) {
  return std::make_shared<Runner>(run_elements, device);
}

}  // namespace terngrad::cuda
