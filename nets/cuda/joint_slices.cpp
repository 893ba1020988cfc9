#include "nets/cuda/joint_slices.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"

namespace terngrad::cuda {
namespace {

/// Test operands, a multiplicative hash of the index: varied enough to reveal another order of additions.
Buffer<float> test_numbers(std::int64_t count, std::uint32_t seed, Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t hash = (static_cast<std::uint32_t>(i) + seed) * 0x9E3779B1u;
    hash = (hash ^ hash >> 15) * 0x85EBCA77u;
    hash = (hash ^ hash >> 13) * 0xC2B2AE3Du;
    values[i] = static_cast<float>(hash >> 8) * 0x1p-24f - 0.5f;
  }
  Buffer<float> buffer(count, stream.device());
  copy<float>(values, buffer.span(), stream);
  return buffer;
}

}  // namespace

bool joint_slices_agree(const SliceElements& elements, int num_slices, std::int64_t workspace_bytes,
                        const Stream& stream_of_net,
                        const std::function<void(const float*, const float*, float*, void*)>& joint,
                        const std::function<void(const float*, const float*, float*, void*)>& slices) {
  Stream stream = stream_of_net;
  const Buffer<float> first = test_numbers(elements.first * num_slices, 1, stream);
  const Buffer<float> second = test_numbers(elements.second, 0x51ED270Bu, stream);
  Buffer<float> result(elements.result * num_slices, stream.device());
  Buffer<std::byte> workspace(workspace_bytes, stream.device());
  std::vector<float> found[2];
  for (const bool is_joint : {true, false}) {
    // Different fill values, so that elements that one of them does not write differ.
    const std::vector<float> nothing(static_cast<std::size_t>(result.num_elements()), is_joint ? 3.0f : 5.0f);
    copy<float>(nothing, result.span(), stream);
    (is_joint ? joint : slices)(first.data(), second.data(), result.data(), workspace.data());
    std::vector<float>& values = found[is_joint ? 0 : 1];
    values.resize(static_cast<std::size_t>(result.num_elements()));
    copy<float>(result.span(), std::span<float>(values), stream);
    stream.synchronize();
  }
  return std::memcmp(found[0].data(), found[1].data(), found[0].size() * sizeof(float)) == 0;
}

}  // namespace terngrad::cuda
