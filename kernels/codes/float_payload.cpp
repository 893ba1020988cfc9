#include "kernels/codes/float_payload.h"

#include <cmath>
#include <cstring>

#include "kernels/codes/cuda/float_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

void pack(const FloatPayloadTask& task, FloatPayload form, Stream& stream) {
  const auto count = static_cast<std::size_t>(task.count);
  if (count == 0) return;
  const bool is_16_bit = form == FloatPayload::kBfloat16;
  const std::size_t bytes = is_16_bit ? (2 * count + 3) / 4 * 4 : 4 * count;
  if (task.flag != nullptr && std::isnan(*task.flag)) {
    std::memset(task.payload, 0, bytes);
  } else if (is_16_bit) {
    auto* out = static_cast<std::uint16_t*>(task.payload);
    encode_bfloat16({task.values, count}, {out, count}, stream);
    if (count % 2 != 0) out[count] = 0;
  } else {
    if (task.payload != task.values) std::memcpy(task.payload, task.values, bytes);
    if (form == FloatPayload::kRoundedBfloat16) {
      round_to_bfloat16({static_cast<float*>(task.payload), count}, stream);
    }
  }
}

}  // namespace

FloatPacker::FloatPacker(FloatPayload form, Device device) : form_(form), device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_float_payload_runner(form, device);
}

void FloatPacker::run(std::span<const FloatPayloadTask> tasks, Stream& stream) {
  TERNGRAD_REQUIRE(stream.device() == device_, "[float_payload] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  for (const FloatPayloadTask& task : tasks) {
    TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(task.payload) % 4 == 0,
                     "[float_payload] payload must be 4-byte aligned");
  }
  if (device_.is_cuda()) return cuda_->run(tasks, stream);
  for (const FloatPayloadTask& task : tasks) pack(task, form_, stream);
}

}  // namespace terngrad
