#include "kernels/codes/exponents.h"

#include <cmath>

#include "kernels/codes/cpu/quantize_task.h"
#include "kernels/codes/cuda/exponents.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

CodeFormat exponent_format(int bits) {
  TERNGRAD_REQUIRE(bits == 8 || bits == 4, "[exponents] codes have 8 or 4 bits, got ", bits);
  return bits == 8 ? CodeFormat::kN8 : CodeFormat::kN4;
}

float exponent_value(std::uint8_t code, int bits) {
  const int sign = 1 << (bits - 1);
  const int magnitude = code & (sign - 1);
  if (magnitude == 0) return 0;
  const float value = std::ldexp(1.0f, magnitude - (sign - 1));
  return (code & sign) != 0 ? -value : value;
}

ExponentQuantizer::ExponentQuantizer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_exponents_runner(device);
}

void ExponentQuantizer::run(std::span<const QuantizeTask> tasks, const ExponentOptions& options, const DrawKey& key,
                            Stream& stream, const std::uint64_t* device_step) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[exponents] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[exponents] device_step is for a GPU's stream");
  const CodeFormat format = exponent_format(options.bits);
  const ElementType type = check_quantize_tasks(tasks, 4, "exponents");
  if (device_.is_cuda()) return cuda_->run(tasks, type, options, key, device_step, stream);
  cpu::quantize_tasks(
      tasks, {.format = format}, Rounding::kStochastic, key, stream,
      [&](const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
          const DrawKey& task_key, std::span<const std::byte> prefetch, cpu::ChunkDraws& draws, std::uint8_t* codes) {
        cpu::quantize_exponents_chunk(task, gradient, begin, count, options, task_key, prefetch, draws, codes);
      });
}

void check_exponents(const PackedCodes& codes) {
  const std::int64_t expected = payload_bytes(codes.format, codes.num_codes, 1);
  if (static_cast<std::int64_t>(codes.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] payload of ", codes.num_codes, " codes has ",
                   codes.payload.size(), " bytes, expected ", expected);
  }
  const std::int64_t bits = codes.format == CodeFormat::kN8 ? 8 : 4;
  const unsigned minus_zero = 1u << (bits - 1);
  for (std::int64_t i = 0; i < expected * 8 / bits; ++i) {
    const std::uint8_t byte = codes.payload[static_cast<std::size_t>(i * bits / 8)];
    const unsigned code = byte >> (i * bits % 8) & (2 * minus_zero - 1);
    if (i < codes.num_codes ? code == minus_zero : code != 0) {
      TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] code ", i, " of ", codes.num_codes, " is ",
                     code, ", which no encoder writes there");
    }
  }
}

}  // namespace terngrad
