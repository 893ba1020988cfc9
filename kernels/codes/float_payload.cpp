#include "kernels/codes/float_payload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/codes/cuda/float_payload.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

/// Smallest number of elements worth a thread.
constexpr std::int64_t kGrain = 65536;

std::int64_t payload_bytes(std::int64_t count, FloatPayload form) {
  return form == FloatPayload::kBfloat16 ? (2 * count + 3) / 4 * 4 : 4 * count;
}

/// Packs elements [begin, end) of a task whose type is not float32, widening tile by tile.
void pack_widened(const FloatPayloadTask& task, FloatPayload form, std::int64_t begin, std::int64_t end) {
  Stream stream;
  std::array<float, kChunkElements> room;
  for (std::int64_t at = begin; at < end; at += kChunkElements) {
    const auto count = static_cast<std::size_t>(std::min(kChunkElements, end - at));
    const std::span<float> tile(room.data(), count);
    widen(element_at(task.values, task.type, at), task.type, tile, stream);
    if (form == FloatPayload::kRoundedBfloat16) round_to_bfloat16(tile, stream);
    if (form == FloatPayload::kBfloat16) {
      encode_bfloat16(tile, {static_cast<std::uint16_t*>(task.payload) + at, count}, stream);
    } else {
      std::memcpy(static_cast<float*>(task.payload) + at, tile.data(), tile.size_bytes());
    }
  }
}

/// Packs elements [begin, end) of a float32 task.
void pack_float32(const FloatPayloadTask& task, FloatPayload form, std::int64_t begin, std::int64_t end) {
  Stream stream;
  const float* values = static_cast<const float*>(task.values) + begin;
  const auto count = static_cast<std::size_t>(end - begin);
  if (form == FloatPayload::kBfloat16) {
    return encode_bfloat16({values, count}, {static_cast<std::uint16_t*>(task.payload) + begin, count}, stream);
  }
  float* out = static_cast<float*>(task.payload) + begin;
  if (out != values) std::memcpy(out, values, 4 * count);
  if (form == FloatPayload::kRoundedBfloat16) round_to_bfloat16({out, count}, stream);
}

void pack(const FloatPayloadTask& task, FloatPayload form, Stream& stream) {
  if (task.count == 0) return;
  const std::int64_t bytes = payload_bytes(task.count, form);
  if (task.flag != nullptr && std::isnan(*task.flag)) {
    std::memset(task.payload, 0, static_cast<std::size_t>(bytes));
    return;
  }
  parallel_for(stream.num_threads(), task.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (task.type == ElementType::kFloat32) {
      pack_float32(task, form, begin, end);
    } else {
      pack_widened(task, form, begin, end);
    }
  });
  const bool is_filled = form == FloatPayload::kBfloat16 && task.count % 2 != 0;
  if (is_filled) static_cast<std::uint16_t*>(task.payload)[task.count] = 0;
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
