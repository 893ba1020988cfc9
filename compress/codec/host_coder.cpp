#include "compress/codec/host_coder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/codec/host_copies.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

HostCoder::HostCoder(const Codec& codec, const CoderSetup& setup, std::vector<int> segments, PayloadSlots& slots)
    : Coder(codec, setup, std::move(segments), slots) {
  if (setup.device.is_cpu()) return;
  // Payloads have fixed slots on a GPU, and readers do not learn how many bytes were written.
  if (!codec.traits().fixed_size && !codec.traits().self_delimiting) {
    TERNGRAD_THROW(NotSupported, "[", codec.name(),
                   "] the codec has no kernels for GPUs, and payloads of sizes that depend on the data cannot go "
                   "through the host");
  }
  copies_ = std::make_unique<HostCopies>(setup, this->segments());
}

HostCoder::~HostCoder() = default;

void HostCoder::require_no_capture(const Stream& stream) const {
  TERNGRAD_REQUIRE(copies_ == nullptr || !is_capturing(stream), "[", codec().name(),
                   "] the codec has no kernels for GPUs: its work waits for the host and cannot be captured");
}

void HostCoder::measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) {
  require_no_capture(stream);
  const auto n = static_cast<std::size_t>(num_scalers());
  const bool is_copied = copies_ != nullptr;
  const std::span<const TensorTable> on_host = is_copied ? copies_->copy_gradients(gradients, stream) : gradients;
  const std::span<float> rows = is_copied ? copies_->rows(gradients.size() * n) : local_rows();
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    measure_worker(on_host[worker], rows.subspan(worker * n, n), is_copied ? copies_->cpu() : stream);
  }
  flag_whole_segments(rows.data(), static_cast<std::int64_t>(gradients.size()), first_scalers().data(),
                      static_cast<std::int64_t>(segments().size()), num_scalers(), is_copied ? copies_->cpu() : stream);
  if (is_copied) copy<float>(rows, local_rows(), stream);
}

void HostCoder::encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) {
  require_no_capture(stream);
  if (gradients.empty() || encoded().empty()) return;
  if (copies_ == nullptr) {
    return encode_on_host(gradients, drawn_with(0), local(global(0)), step.step, stream);
  }
  const auto count = static_cast<std::size_t>(num_scalers()) * gradients.size();
  const std::span<float> rows = copies_->rows(2 * count);
  copy<float>({drawn_with(0), count}, rows.first(count), stream);
  copy<float>({local(global(0)), count}, rows.last(count), stream);
  stream.synchronize();
  TERNGRAD_REQUIRE(copies_->gradients().size() == gradients.size(), "[", codec().name(), "] ", gradients.size(),
                   " gradients are to be encoded, ", copies_->gradients().size(), " were measured");
  encode_on_host(copies_->gradients(), rows.data(), rows.data() + count, HostCopies::number_of(step, stream), stream);
}

void HostCoder::encode_on_host(std::span<const TensorTable> gradients, const float* scalers, const float* flags,
                               std::uint64_t step, Stream& stream) {
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    const DrawKey key{setup().seed, step, static_cast<std::uint32_t>(global(worker)), DrawPurpose::kQuantize};
    const auto row = static_cast<std::ptrdiff_t>(worker) * num_scalers();
    for (std::size_t i = 0; i < encoded().size(); ++i) {
      const auto& [slice, first_scaler] = encoded()[i];
      outgoing_bytes(i, worker) = 0;
      if (slice.count == 0) continue;
      const auto count = static_cast<std::size_t>(codec().scaler_range(slice).count);
      const auto most = static_cast<std::size_t>(codec().max_payload_bytes(slice, slots().form));
      std::uint8_t* const payload = copies_ == nullptr ? outgoing(i, worker) : copies_->payload(most).data();
      // If one run of a tensor is not finite, all of its scalers are NaN.
      const bool is_finite = !std::isnan(flags[row + first_scaler]);
      const EncodeTask task{gradients[worker], slice, {scalers + row + first_scaler, count}, is_finite, key, payload};
      std::int64_t& bytes = outgoing_bytes(i, worker);
      bytes = encode_slice(task, copies_ == nullptr ? stream : copies_->cpu());
      if (copies_ == nullptr) continue;
      const auto written = static_cast<std::size_t>(bytes);
      copy<std::uint8_t>({payload, written}, std::span(outgoing(i, worker), written), stream);
    }
  }
}

void HostCoder::aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) {
  require_no_capture(stream);
  TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[", codec().name(), "] codes do not add up as integers");
  if (aggregated().empty()) return;
  const auto n = static_cast<std::size_t>(num_scalers());
  const auto num_workers = static_cast<std::size_t>(setup().workers.num_workers);
  std::span<float> rows;
  if (copies_ != nullptr) {
    rows = copies_->rows(num_workers * n);
    for (std::size_t worker = 0; worker < num_workers; ++worker) {
      copy<float>(sent_scalers(static_cast<int>(worker)), rows.subspan(worker * n, n), stream);
    }
    stream.synchronize();
  }
  for (std::size_t i = 0; i < aggregated().size(); ++i) {
    const auto& [slice, first_scaler] = aggregated()[i];
    const auto first = static_cast<std::size_t>(first_scaler);
    const auto num_touched = static_cast<std::size_t>(codec().scaler_range(slice).count);
    sent_.clear();
    for (std::size_t worker = 0; worker < num_workers; ++worker) {
      const std::span<const float> row =
          copies_ == nullptr ? sent_scalers(static_cast<int>(worker)) : rows.subspan(worker * n, n);
      sent_.push_back({.slice = slice,
                       .format = codec().record_format(slots().form),
                       .scalers = row.subspan(first, num_touched),
                       .payload = {incoming(i)[worker], static_cast<std::size_t>(incoming_bytes(i)[worker])}});
    }
    if (copies_ == nullptr) {
      decode_mean(sent_, mean.slice(slice), stream);
      continue;
    }
    copy_payloads(stream);
    const std::span<float> out = copies_->mean(static_cast<std::size_t>(slice.count));
    decode_mean(sent_, out.data(), copies_->cpu());
    copy<float>(out, std::span(mean.slice(slice), out.size()), stream);
  }
}

void HostCoder::copy_payloads(Stream& stream) {
  std::size_t room = 0;  // size of each payload, padded
  for (const EncodedSlice& encoded : sent_) room = std::max(room, (encoded.payload.size() + 7) / 8 * 8);
  std::span<std::uint8_t> left = copies_->payload(room * sent_.size());
  for (EncodedSlice& encoded : sent_) {
    const std::span<std::uint8_t> payload = left.first(encoded.payload.size());
    copy<std::uint8_t>(encoded.payload, payload, stream);
    encoded.payload = payload;
    left = left.subspan(room);
  }
  stream.synchronize();
}

void HostCoder::decode_mean(std::span<const EncodedSlice> sent, float* out, Stream& stream) const {
  const auto leaf = [&](int worker, std::int64_t begin, std::span<float> decoded) {
    codec().decode_range(sent[static_cast<std::size_t>(worker)], begin, decoded);
  };
  const auto num_workers = static_cast<int>(sent.size());
  aggregate_tree(num_workers, sent[0].slice.count, leaf, 1.0f / static_cast<float>(num_workers), out, stream);
}

}  // namespace terngrad
