#include "compress/codecs/host_coder.h"

#include <utility>

#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

HostCoder::HostCoder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots)
    : Coder(codec, setup, std::move(segments), slots) {
  if (setup.device.is_cuda()) TERNGRAD_THROW(NotSupported, "[", codec.name(), "] the codec has no version for GPUs");
}

void HostCoder::measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) {
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    measure_worker(gradients[worker], local_row(global(worker)), stream);
  }
}

void HostCoder::encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) {
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    const DrawKey key{setup().seed, step.step, static_cast<std::uint32_t>(global(worker)), DrawPurpose::kQuantize};
    for (std::size_t i = 0; i < encoded().size(); ++i) {
      const auto& [slice, first_scaler] = encoded()[i];
      const auto count = static_cast<std::size_t>(codec().scaler_range(slice).count);
      const EncodeTask task{
          gradients[worker], slice, {drawn_with(worker) + first_scaler, count}, key, outgoing(i, worker)};
      outgoing_bytes(i, worker) = encode_slice(task, stream);
    }
  }
}

void HostCoder::aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) {
  TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[", codec().name(), "] codes do not add up as integers");
  const int num_workers = setup().workers.num_workers;
  for (std::size_t i = 0; i < aggregated().size(); ++i) {
    const auto& [slice, first_scaler] = aggregated()[i];
    const auto num_scalers = static_cast<std::size_t>(codec().scaler_range(slice).count);
    const auto leaf = [&, slice = slice, first = first_scaler](int worker, std::int64_t begin, std::span<float> out) {
      const auto w = static_cast<std::size_t>(worker);
      const EncodedSlice encoded{.slice = slice,
                                 .format = codec().record_format(slots().form),
                                 .scalers = sent_scalers(worker).subspan(static_cast<std::size_t>(first), num_scalers),
                                 .payload = {incoming(i)[w], static_cast<std::size_t>(incoming_bytes(i)[w])}};
      codec().decode_range(encoded, begin, out);
    };
    aggregate_tree(num_workers, slice.count, leaf, 1.0f / static_cast<float>(num_workers), mean.slice(slice), stream);
  }
}

}  // namespace terngrad
