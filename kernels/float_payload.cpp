#include "kernels/float_payload.h"

#include <cmath>
#include <cstring>

#include "kernels/bfloat16.h"
#include "kernels/cuda/float_payload.h"
#include "kernels/errors.h"

namespace terngrad {
namespace {

void pack(const FloatPayloadTask& task, ElementType type, Stream& stream) {
  const auto count = static_cast<std::size_t>(task.count);
  if (count == 0) return;
  const bool is_bfloat16 = type == ElementType::kBfloat16;
  const std::size_t bytes = is_bfloat16 ? (2 * count + 3) / 4 * 4 : 4 * count;
  if (task.flag != nullptr && std::isnan(*task.flag)) {
    std::memset(task.payload, 0, bytes);
  } else if (is_bfloat16) {
    auto* out = static_cast<std::uint16_t*>(task.payload);
    encode_bfloat16({task.values, count}, {out, count}, stream);
    if (count % 2 != 0) out[count] = 0;
  } else {
    std::memcpy(task.payload, task.values, bytes);
  }
}

}  // namespace

FloatPacker::FloatPacker(ElementType type, Device device) : type_(type), device_(device) {
  TERNGRAD_REQUIRE(type == ElementType::kFloat32 || type == ElementType::kBfloat16,
                   "[float_payload] payloads are fp32 or bf16, not ", element_type_name(type));
  if (device.is_cuda()) cuda_ = cuda::make_float_payload_runner(type, device);
}

void FloatPacker::run(std::span<const FloatPayloadTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[float_payload] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  for (const FloatPayloadTask& task : tasks) {
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % 4 == 0,
                     "[float_payload] payload must be 4-byte aligned");
  }
  if (device_.is_cuda()) return cuda_->run(tasks, stream);
  for (const FloatPayloadTask& task : tasks) pack(task, type_, stream);
}

}  // namespace terngrad
