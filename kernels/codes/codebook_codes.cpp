#include "kernels/codes/codebook_codes.h"

#include "kernels/codes/cpu/quantize_task.h"
#include "kernels/codes/cuda/codebook_codes.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

CodeFormat codebook_format(int levels) {
  TERNGRAD_REQUIRE(levels == 4 || levels == 8 || levels == 16, "[codebook] codes are of 4, 8 or 16 levels, got ",
                   levels);
  return levels == 4 ? CodeFormat::kE2 : levels == 8 ? CodeFormat::kE3 : CodeFormat::kE4;
}

int codebook_bits(CodeFormat format) {
  TERNGRAD_REQUIRE(is_codebook(format), "[codebook] format ", to_string(format), " is not of a codebook");
  return format == CodeFormat::kE2 ? 2 : format == CodeFormat::kE3 ? 3 : 4;
}

CodebookQuantizer::CodebookQuantizer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_codebook_runner(device);
}

void CodebookQuantizer::run(std::span<const QuantizeTask> tasks, int levels, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[codebook] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  const CodeFormat format = codebook_format(levels);
  const ElementType type = check_quantize_tasks(tasks, 4, "codebook");
  if (device_.is_cuda()) return cuda_->run(tasks, type, levels, stream);
  const Codebook book = codebook(levels);
  cpu::quantize_tasks(tasks, {.format = format}, Rounding::kNearest, {}, stream,
                      [&book](const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                              const DrawKey&, std::span<const std::byte>, cpu::ChunkDraws&, std::uint8_t* codes) {
                        cpu::quantize_codebook_chunk(task, gradient, begin, count, book, codes);
                      });
}

void check_codebook(const PackedCodes& codes) {
  const auto num_bytes = static_cast<std::int64_t>(codes.payload.size());
  const std::int64_t used = codebook_bits(codes.format) * codes.num_codes;
  for (std::int64_t byte = used / 8; byte < num_bytes; ++byte) {
    const unsigned padding = codes.payload[static_cast<std::size_t>(byte)] >> (byte == used / 8 ? used % 8 : 0);
    if (padding != 0) {
      TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] padding after the last code is not zero");
    }
  }
}

}  // namespace terngrad
