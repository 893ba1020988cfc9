#include "kernels/codes/levels.h"

#include <cstring>

#include "kernels/codes/cpu/quantize_task.h"
#include "kernels/codes/cuda/levels.h"
#include "kernels/codes/lanes.h"
#include "kernels/codes/shared_draws.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// @throws CommunicationError unless all bytes from `first` on are zero
void check_padding(const PackedCodes& codes, std::size_t first) {
  for (std::size_t i = first; i < codes.payload.size(); ++i) {
    if (codes.payload[i] != 0) {
      TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] padding after the last code is not zero");
    }
  }
}

}  // namespace

CodeFormat level_format(int bits) {
  TERNGRAD_REQUIRE(bits == 2 || bits == 4 || bits == 8, "[levels] codes have 2, 4 or 8 bits, got ", bits);
  return bits == 2 ? CodeFormat::kT2 : bits == 4 ? CodeFormat::kQ4 : CodeFormat::kQ8;
}

int levels_of(CodeFormat format) {
  if (is_ternary(format)) return 1;
  TERNGRAD_REQUIRE(format == CodeFormat::kQ4 || format == CodeFormat::kQ8, "[levels] format ", to_string(format),
                   " has no codes of one worker's uniform levels");
  return num_levels(format == CodeFormat::kQ4 ? 4 : 8);
}

LevelQuantizer::LevelQuantizer(Device device) : device_(device), ternarizer_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_levels_runner(device);
}

void LevelQuantizer::run(std::span<const QuantizeTask> tasks, const LevelOptions& given, const DrawKey& key,
                         Stream& stream, const std::uint64_t* device_step) {
  LevelOptions options = given;
  options.rounding = rounding_for(given.rounding, given.num_workers);
  TERNGRAD_REQUIRE(stream.device() == device_, "[levels] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[levels] device_step is for a GPU's stream");
  const CodeFormat format = options.lanes ? CodeFormat::kLanes : level_format(options.bits);
  level_format(options.bits);  // throws for invalid bits, with lanes too
  const ElementType type = check_quantize_tasks(tasks, options.lanes ? 8 : 4, "levels");
  for (const QuantizeTask& task : tasks) {
    require_stratum(options.rounding, key.worker + task.worker, options.num_workers, "levels");
  }
  if (options.lanes) lane_bits(options.num_workers, 2 * num_levels(options.bits));  // throws if sums are not exact
  if (options.bits == 2 && options.rounding != Rounding::kNearest) {
    ternarize_tasks_.clear();
    for (const QuantizeTask& task : tasks) ternarize_tasks_.push_back(ternarize_task(task));
    ternarize_bytes_.resize(tasks.size());
    const TernarizeOptions ternarize_options{.format = format,
                                             .num_workers = options.num_workers,
                                             .refine_purpose = options.refine_purpose,
                                             .rounding = options.rounding};
    return ternarizer_.run(ternarize_tasks_, ternarize_options, key, ternarize_bytes_, stream, device_step);
  }
  if (device_.is_cuda()) return cuda_->run(tasks, type, options, key, device_step, stream);
  const cpu::CodeStore store{
      .format = format, .lane_bits = options.lanes ? lane_bits(options.num_workers, 2 * num_levels(options.bits)) : 0};
  cpu::quantize_tasks(
      tasks, store, options.rounding, key, stream,
      [&](const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
          const DrawKey& task_key, std::span<const std::byte> prefetch, cpu::ChunkDraws& draws, std::uint8_t* codes) {
        cpu::quantize_levels_chunk(task, gradient, begin, count, options, task_key, prefetch, draws, codes);
      });
}

void check_levels(const PackedCodes& codes) {
  const std::int64_t expected = payload_bytes(codes.format, codes.num_codes, 1);
  if (static_cast<std::int64_t>(codes.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] payload of ", codes.num_codes, " codes has ",
                   codes.payload.size(), " bytes, expected ", expected);
  }
  const auto n = static_cast<std::size_t>(codes.num_codes);
  const bool is_q8 = codes.format == CodeFormat::kQ8;
  const std::size_t whole_bytes = is_q8 ? n : n / 2;
  bool found = false;
  for (const std::uint8_t byte : codes.payload.first(whole_bytes)) {
    found |= is_q8 ? byte == 0xff : (byte & 0x0f) == 0x0f || byte >= 0xf0;
  }
  std::size_t end = whole_bytes;
  if (!is_q8 && n % 2 != 0) {
    found |= codes.payload[end] == 0x0f;
    if (codes.payload[end] > 0x0f) check_padding(codes, end);
    ++end;
  }
  if (found) {
    TERNGRAD_THROW(CommunicationError, "[", to_string(codes.format), "] a code is ", is_q8 ? 255 : 15,
                   ", which no encoder writes");
  }
  check_padding(codes, end);
}

void unpack_levels(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out) {
  const int levels = levels_of(codes.format);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(first) + i;
    const int code = codes.format == CodeFormat::kQ8 ? codes.payload[at] : codes.payload[at / 2] >> (at % 2 * 4) & 15;
    out[i] = static_cast<std::int16_t>(code - levels);
  }
}

}  // namespace terngrad
