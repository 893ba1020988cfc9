// Messages of codes on a GPU, as inputs of benchmarks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"

namespace terngrad::bench {

/// Messages of several workers with the same gradient and draws of their own.
struct CudaMessages {
  std::vector<Buffer<std::uint64_t>> payloads;  // on the GPU
  std::vector<std::int64_t> bytes;              // written to each

  std::vector<const std::uint8_t*> pointers() const;
};

/// The same in host memory.
struct HostMessages {
  std::vector<std::vector<std::uint64_t>> payloads;
  /// Each has passed check_payload.
  std::vector<PackedCodes> codes;
};

/// Encodes a gradient on the GPU, for each worker.
/// @param num_workers  messages; lanes have room for the sum of all
CudaMessages make_messages(const Buffer<float>& gradient, CodeFormat format, int num_workers, Stream& stream);

/// Messages of n codes each. Waits for the GPU. @throws CommunicationError for one that is none
HostMessages on_host(const CudaMessages& messages, std::int64_t n, CodeFormat format, Stream& stream);

/// Bytes of all these messages for a gradient of n elements.
double message_bytes(std::int64_t n, CodeFormat format, int num_workers);

/// What messages are encoded by: about a third of ternary codes are not zero.
inline constexpr float kMessageScaler = 0.025f;

}  // namespace terngrad::bench
