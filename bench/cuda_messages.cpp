#include "bench/cuda_messages.h"

#include "bench/cuda_harness.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/copy.h"

namespace terngrad::bench {

namespace {

/// Fills messages of uniform levels, which have all one length.
void quantize_messages(CudaMessages& messages, const Buffer<float>& gradient, CodeFormat format,
                       const Buffer<float>& scaler, std::int64_t bytes, Stream& stream) {
  std::vector<QuantizeTask> tasks;
  for (Buffer<std::uint64_t>& payload : messages.payloads) {
    tasks.push_back({.gradient = gradient.data(),
                     .count = gradient.num_elements(),
                     .scalers = scaler.data(),
                     .payload = reinterpret_cast<std::uint8_t*>(payload.data()),
                     .worker = static_cast<std::uint32_t>(tasks.size())});
  }
  LevelQuantizer quantizer(stream.device());
  quantizer.run(tasks, {.bits = format == CodeFormat::kQ4 ? 4 : 8}, {1, 1, 0, DrawPurpose::kQuantize}, stream);
  stream.synchronize();
  messages.bytes.assign(tasks.size(), bytes);
}

}  // namespace

CudaMessages make_messages(const Buffer<float>& gradient, CodeFormat format, int num_workers, Stream& stream) {
  Buffer<float> scaler(1, stream.device());
  copy<float>({&kMessageScaler, 1}, scaler.span(), stream);
  CudaMessages messages;
  messages.bytes.resize(static_cast<std::size_t>(num_workers));
  const std::int64_t room = payload_bytes(format, gradient.num_elements(), num_workers);
  for (int worker = 0; worker < num_workers; ++worker) {
    messages.payloads.emplace_back((room + 7) / 8, stream.device());
  }
  if (format == CodeFormat::kQ4 || format == CodeFormat::kQ8) {
    quantize_messages(messages, gradient, format, scaler, room, stream);
    return messages;
  }
  std::vector<TernarizeTask> tasks;
  for (Buffer<std::uint64_t>& payload : messages.payloads) {
    tasks.push_back({.gradient = gradient.data(),
                     .count = gradient.num_elements(),
                     .scalers = scaler.data(),
                     .payload = reinterpret_cast<std::uint8_t*>(payload.data()),
                     .worker = static_cast<std::uint32_t>(tasks.size())});
  }
  ternarize(tasks, {.format = format, .num_workers = num_workers}, {1, 1, 0, DrawPurpose::kTernarize}, messages.bytes,
            stream);
  return messages;
}

HostMessages on_host(const CudaMessages& messages, std::int64_t n, CodeFormat format, Stream& stream) {
  const auto num_workers = static_cast<int>(messages.payloads.size());
  HostMessages result;
  for (const Buffer<std::uint64_t>& payload : messages.payloads) {
    result.payloads.emplace_back(static_cast<std::size_t>(payload.num_elements()));
    copy<std::uint64_t>(payload.span(), std::span(result.payloads.back()), stream);
  }
  stream.synchronize();
  for (std::size_t k = 0; k < result.payloads.size(); ++k) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(result.payloads[k].data());
    result.codes.push_back({format, {bytes, static_cast<std::size_t>(messages.bytes[k])}, n, num_workers});
    check_payload(result.codes.back());
  }
  return result;
}

double message_bytes(std::int64_t n, CodeFormat format, int num_workers) {
  if (has_fixed_size(format)) {
    return static_cast<double>(num_workers) * static_cast<double>(payload_bytes(format, n, num_workers));
  }
  Stream stream(Device::cuda());
  double sum = 0;
  for (const std::int64_t bytes :
       make_messages(gradients_on(stream, n, 1).front(), format, num_workers, stream).bytes) {
    sum += static_cast<double>(bytes);
  }
  return sum;
}

std::vector<const std::uint8_t*> CudaMessages::pointers() const {
  std::vector<const std::uint8_t*> result;
  for (const Buffer<std::uint64_t>& payload : payloads) {
    result.push_back(reinterpret_cast<const std::uint8_t*>(payload.data()));
  }
  return result;
}

}  // namespace terngrad::bench
