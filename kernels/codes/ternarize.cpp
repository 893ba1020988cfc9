#include "kernels/codes/ternarize.h"

#include "kernels/codes/cuda/ternarize.h"
#include "kernels/codes/shared_draws.h"
#include "kernels/codes/trans_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/common/gradient_tasks.h"

namespace terngrad {

namespace cpu {
void ternarize(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
               std::span<std::int64_t> bytes, Stream& stream);
}  // namespace cpu

std::int64_t num_blocks(std::int64_t first, std::int64_t count, std::int64_t block_elements) {
  if (count == 0) return 0;
  if (block_elements == 0) return 1;
  return (first + count - 1) / block_elements - first / block_elements + 1;
}

TernarizeTask ternarize_task(const QuantizeTask& task) {
  return {.gradient = task.gradient,
          .first = task.first,
          .count = task.count,
          .draw_offset = task.draw_offset,
          .block_elements = task.block_elements,
          .scalers = task.scalers,
          .payload = task.payload,
          .worker = task.worker,
          .type = task.type};
}

Ternarizer::Ternarizer(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_ternarize_runner(device);
}

void Ternarizer::run(std::span<const TernarizeTask> tasks, const TernarizeOptions& given, const DrawKey& key,
                     std::span<std::int64_t> bytes, Stream& stream, const std::uint64_t* device_step) {
  TernarizeOptions options = given;
  options.rounding = rounding_for(given.rounding, given.num_workers);
  TERNGRAD_REQUIRE(stream.device() == device_, "[ternarize] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  TERNGRAD_REQUIRE(device_step == nullptr || device_.is_cuda(), "[ternarize] device_step is for a GPU's stream");
  TERNGRAD_REQUIRE(bytes.size() == tasks.size(), "[ternarize] bytes must hold one entry per task: need ", tasks.size(),
                   ", have ", bytes.size());
  TERNGRAD_REQUIRE(options.format != TernaryFormat::kLanes || options.levels == TernaryLevels::kSymmetric,
                   "[ternarize] codes of asymmetric levels cannot be summed in lanes");
  if (device_.is_cuda() && !runs_on_gpus(options.format)) {
    TERNGRAD_THROW(NotSupported, "[ternarize] format ", to_string(options.format), " has no kernels for GPUs");
  }
  const ElementType type = common::element_type_of(tasks, "ternarize");
  for (const TernarizeTask& task : tasks) {
    TERNGRAD_REQUIRE(task.first % kChunkElements == 0, "[ternarize] first must be a multiple of ", kChunkElements,
                     ", got ", task.first);
    TERNGRAD_REQUIRE(task.draw_offset % kDrawAlignment == 0, "[ternarize] draw_offset must be a multiple of ",
                     kDrawAlignment, ", got ", task.draw_offset);
    TERNGRAD_REQUIRE(task.block_elements % kMinBlockElements == 0, "[ternarize] block_elements must be a multiple of ",
                     kMinBlockElements, ", got ", task.block_elements);
    TERNGRAD_REQUIRE(options.format != TernaryFormat::kTMask || task.count <= kMaxTMaskElements,
                     "[ternarize] tmask counts bytes of signs in 32 bits: a slice has at most ", kMaxTMaskElements,
                     " elements, got ", task.count);
    TERNGRAD_REQUIRE(options.format != TernaryFormat::kTrans || task.count <= kMaxTransElements,
                     "[ternarize] trans counts bytes of records in 32 bits: a slice has at most ", kMaxTransElements,
                     " elements, got ", task.count);
    const std::uintptr_t alignment = options.format == TernaryFormat::kLanes ? 8 : 4;
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % alignment == 0, "[ternarize] payload must be ",
                     alignment, "-byte aligned");
    require_stratum(options.rounding, key.worker + task.worker, options.num_workers, "ternarize");
  }
  if (device_.is_cuda()) return cuda_->run(tasks, type, options, key, device_step, bytes, stream);
  cpu::ternarize(tasks, options, key, bytes, stream);
}

void ternarize(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
               std::span<std::int64_t> bytes, Stream& stream) {
  Ternarizer(stream.device()).run(tasks, options, key, bytes, stream);
  stream.synchronize();  // frees the GPU tables only after their use
}

}  // namespace terngrad
