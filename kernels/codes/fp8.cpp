#include "kernels/codes/fp8.h"

#include <cmath>

#include "kernels/codes/cpu/quantize_task.h"
#include "kernels/codes/cuda/fp8.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

float e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int fraction = code & 7;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                        : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return code >= 0x80 ? -magnitude : magnitude;
}

Fp8Quantizer::Fp8Quantizer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_fp8_runner(device);
}

void Fp8Quantizer::run(std::span<const QuantizeTask> tasks, const Fp8Options& options, const DrawKey& key,
                       Stream& stream, const std::uint64_t* device_step) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[fp8] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[fp8] device_step is for a GPU's stream");
  const ElementType type = check_quantize_tasks(tasks, 4, "fp8");
  if (device_.is_cuda()) return cuda_->run(tasks, type, options, key, device_step, stream);
  cpu::quantize_tasks(
      tasks, {.format = CodeFormat::kE4M3}, options.rounding, key, stream,
      [&](const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
          const DrawKey& task_key, std::span<const std::byte> prefetch, cpu::ChunkDraws& draws, std::uint8_t* codes) {
        cpu::quantize_fp8_chunk(task, gradient, begin, count, options, task_key, prefetch, draws, codes);
      });
}

void check_e4m3(const PackedCodes& codes) {
  const std::int64_t expected = payload_bytes(CodeFormat::kE4M3, codes.num_codes, 1);
  if (static_cast<std::int64_t>(codes.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[e4m3] payload of ", codes.num_codes, " codes has ", codes.payload.size(),
                   " bytes, expected ", expected);
  }
  const auto n = static_cast<std::size_t>(codes.num_codes);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t code = codes.payload[i];
    if ((code & 0x7f) == 0x7f || code == 0x80) {
      TERNGRAD_THROW(CommunicationError, "[e4m3] code ", i, " is ", static_cast<int>(code),
                     ": NaN or minus zero, which no encoder writes");
    }
  }
  for (std::size_t i = n; i < codes.payload.size(); ++i) {
    if (codes.payload[i] != 0) TERNGRAD_THROW(CommunicationError, "[e4m3] padding after the last code is not zero");
  }
}

}  // namespace terngrad
