#include "compress/exchange/device/device_exchange_parts.h"

#include <utility>
#include <vector>

#include "compress/exchange/part_clock.h"
#include "compress/route/downlink_forms.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

DeviceExchangeParts::DeviceExchangeParts(const Layout& layout, CodecPlan plan, const WorkerRange& workers,
                                         const CompressedAllReduceOptions& options, const Stream& stream,
                                         std::shared_ptr<DeviceCommunicator> communicator, const MemoryOptions& memory)
    : workers_(workers),
      options_(options),
      stream_(stream),
      communicator_(std::move(communicator)),
      flags_(options.on_nonfinite, stream_),
      parts_(layout, std::move(plan)),
      factors_(parts_.layout(), parts_.plan(), stream_.device()) {
  // An update cannot be undone if a later part drops the step.
  TERNGRAD_REQUIRE(options.update == nullptr, "[parts] an update of shards needs all tensors at once");
  // Refuses unsupported options now, not in the first step.
  choose_algorithm(options.algorithm, options.owners, options.downlink_codec, this->layout(), this->plan(),
                   workers_.num_workers);
  DownlinkForms(this->plan(), options.downlink_codec, workers_.num_workers);
  require_device_downlink(options.downlink_codec);
  if (memory.kind == MemoryKind::kNone) return;
  memory_.emplace(this->layout(), this->plan(), memory, workers_.num_local_workers, stream_.device());
}

void DeviceExchangeParts::begin(std::uint64_t step) {
  parts_.begin(step);
  flags_.begin_step(stream_);
  bytes_ = {};
  is_begun_ = true;
  has_failed_ = false;
}

ExchangeReport DeviceExchangeParts::exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                                             const TensorTable& mean) {
  TERNGRAD_REQUIRE(is_begun_ && !has_failed_, "[parts] no step has begun, or a part of it has failed");
  auto& part = parts_.of(segments);
  parts_.require_new(segments);
  if (part.exchange == nullptr) {
    CodecPlan plan(this->plan(), part.layout, part.segments);
    CompressedAllReduceOptions own = options_;
    own.algorithm = algorithm_of_part(options_.algorithm, this->plan(), plan);
    part.exchange = make_part_exchange(part.layout, std::move(plan),
                                       {{workers_, communicator_}, own, stream_, flags_, factors_}, part.segments);
  }
  has_failed_ = true;  // reset at the end, unless this throws
  if (memory_.has_value()) part.encoded = memory_->compensate_part(part.layout, part.segments, gradients, stream_);
  PartClock clock(stream_.device(), /*is_on=*/false);
  part.exchange->run(memory_.has_value() ? part.encoded : gradients, mean, {parts_.step(), nullptr}, stream_, clock);
  ExchangeReport bytes{part.exchange->bytes()};
  bytes_ += bytes;
  parts_.add(part);
  has_failed_ = false;
  return bytes;
}

void DeviceExchangeParts::finish() {
  TERNGRAD_REQUIRE(is_begun_ && !has_failed_, "[parts] no step has begun, or a part of it has failed");
  is_begun_ = false;
  parts_.finish([&](auto& part) {
    part.exchange->commit(stream_);
    if (!memory_.has_value()) return;
    for (const MemoryTables& tables : memory_->kept_of(part.layout, part.segments, part.encoded)) {
      part.exchange->update_memory(tables.what, tables.from, tables.into, stream_);
    }
  });
}

ExchangeReport DeviceExchangeParts::report() {
  ExchangeReport result = bytes_;
  flags_.found(stream_).apply_policy(options_.on_nonfinite, layout(), workers_.num_workers, parts_.step(), result);
  return result;
}

float DeviceExchangeParts::decode_local(int local_worker, int segment, std::span<float> out) {
  const auto& place = parts_.place_of(segment);
  TERNGRAD_REQUIRE(place.part != nullptr, "[exchange] the last step sent nothing of tensor ", segment);
  return place.part->exchange->decode_local(local_worker, place.segment, out, stream_);
}

}  // namespace terngrad
