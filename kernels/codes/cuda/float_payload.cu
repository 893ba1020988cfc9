// Float payloads on a GPU: one block per chunk of a slice, 4 elements per thread and turn.
#include "kernels/codes/cuda/float_payload.h"

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kPack = 4;
static_assert(kChunkElements % (kThreads * kPack) == 0, "whole turns of a block cover a chunk");

/// FloatPayloadTask in the form for kernels.
struct Job {
  const void* values;
  const float* flag;
  void* payload;
  std::int64_t count;
};

struct Tile {
  std::int32_t job;
  std::int32_t chunk;
};

struct ToFloat32 {
  using Element = float;
  using Pack = float4;
  __device__ static float convert(float value) { return value; }
  __device__ static Pack convert(float4 v) { return v; }
};

struct ToBfloat16 {
  using Element = std::uint16_t;
  using Pack = ushort4;
  __device__ static std::uint16_t convert(float value) { return to_bfloat16(value); }
  __device__ static Pack convert(float4 v) {
    return {to_bfloat16(v.x), to_bfloat16(v.y), to_bfloat16(v.z), to_bfloat16(v.w)};
  }
};

struct ToRoundedBfloat16 {
  using Element = float;
  using Pack = float4;
  __device__ static float convert(float value) { return __uint_as_float(std::uint32_t{to_bfloat16(value)} << 16); }
  __device__ static Pack convert(float4 v) { return {convert(v.x), convert(v.y), convert(v.z), convert(v.w)}; }
};

/// Loads four elements at once.
__device__ float4 load_pack(const float* values) { return *reinterpret_cast<const float4*>(values); }
template <class Element>
__device__ float4 load_pack(const Element* values) {
  const uint2 words = *reinterpret_cast<const uint2*>(values);
  const float2 low = widened_pair<Element>(words.x);
  const float2 high = widened_pair<Element>(words.y);
  return {low.x, low.y, high.x, high.y};
}

template <class To, class Element>
__global__ void __launch_bounds__(kThreads)
    float_payload_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles) {
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const float flag = job.flag == nullptr ? 0.0f : *job.flag;
  const bool zeros = flag != flag;
  const std::int64_t begin = std::int64_t{tile.chunk} * kChunkElements;
  const std::int64_t count = min(kChunkElements, job.count - begin);
  const Element* values = static_cast<const Element*>(job.values) + begin;
  typename To::Element* out = static_cast<typename To::Element*>(job.payload) + begin;
  const bool aligned = reinterpret_cast<std::uintptr_t>(values) % (kPack * sizeof(Element)) == 0 &&
                       reinterpret_cast<std::uintptr_t>(out) % sizeof(typename To::Pack) == 0;
  constexpr std::int64_t kTurn = std::int64_t{kThreads} * kPack;
  constexpr int kTurns = static_cast<int>(kChunkElements / kTurn);
  const std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * kPack;
  if (aligned && count == kChunkElements) {
    // Payload and values may be the same memory, so the compiler cannot move loads before stores: load everything
    // first.
    float4 loaded[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      loaded[turn] = load_pack(values + first + turn * kTurn);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const float4 v = zeros ? make_float4(0, 0, 0, 0) : loaded[turn];
      *reinterpret_cast<typename To::Pack*>(out + first + turn * kTurn) = To::convert(v);
    }
    return;  // a whole chunk of 16-bit elements is a multiple of 4 bytes
  }
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t i = first + turn * kTurn;
    if (aligned && i + kPack <= count) {
      const float4 v = load_pack(values + i);
      *reinterpret_cast<typename To::Pack*>(out + i) = To::convert(zeros ? make_float4(0, 0, 0, 0) : v);
    } else {
      for (int e = 0; e < kPack && i + e < count; ++e) out[i + e] = To::convert(zeros ? 0.0f : widened(values[i + e]));
    }
  }
  // Pads 16-bit elements to a multiple of 4 bytes.
  if (sizeof(typename To::Element) == 2 && threadIdx.x == 0 && begin + count == job.count && count % 2 != 0) {
    out[count] = 0;
  }
}

class Runner final : public FloatPayloadRunner {
 public:
  Runner(FloatPayload form, const Device& device) : form_(form), jobs_table_(device), tiles_table_(device) {}

  void run(std::span<const FloatPayloadTask> tasks, Stream& stream) override {
    jobs_.clear();
    for (const FloatPayloadTask& task : tasks) jobs_.push_back({task.values, task.flag, task.payload, task.count});
    // One launch per element type.
    constexpr std::array kTypes = {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16};
    std::array<std::size_t, kTypes.size() + 1> first_tile = {};
    tiles_.clear();
    for (std::size_t t = 0; t < kTypes.size(); ++t) {
      for (std::size_t job = 0; job < tasks.size(); ++job) {
        if (tasks[job].type != kTypes[t]) continue;
        for (std::int64_t begin = 0; begin < tasks[job].count; begin += kChunkElements) {
          tiles_.push_back({static_cast<std::int32_t>(job), static_cast<std::int32_t>(begin / kChunkElements)});
        }
      }
      first_tile[t + 1] = tiles_.size();
    }
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    for (std::size_t t = 0; t < kTypes.size(); ++t) {
      with_element(kTypes[t], [&](auto element) {
        launch_form<decltype(element)>(jobs, tiles + first_tile[t], first_tile[t + 1] - first_tile[t], stream);
      });
    }
  }

 private:
  template <class Element>
  void launch_form(const Job* jobs, const Tile* tiles, std::size_t num_tiles, Stream& stream) const {
    const dim3 grid(num_blocks_for(static_cast<std::int64_t>(num_tiles), 1));
    switch (form_) {
      case FloatPayload::kFloat32:
        return launch(float_payload_kernel<ToFloat32, Element>, grid, dim3(kThreads), 0, stream, jobs, tiles);
      case FloatPayload::kBfloat16:
        return launch(float_payload_kernel<ToBfloat16, Element>, grid, dim3(kThreads), 0, stream, jobs, tiles);
      case FloatPayload::kRoundedBfloat16:
        return launch(float_payload_kernel<ToRoundedBfloat16, Element>, grid, dim3(kThreads), 0, stream, jobs, tiles);
    }
  }

  FloatPayload form_;
  std::vector<Job> jobs_;
  std::vector<Tile> tiles_;
  UploadedTable<Job> jobs_table_;
  UploadedTable<Tile> tiles_table_;
};

}  // namespace

std::shared_ptr<FloatPayloadRunner> make_float_payload_runner(FloatPayload form, const Device& device) {
  return std::make_shared<Runner>(form, device);
}

}  // namespace terngrad::cuda
