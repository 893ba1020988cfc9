#include "compress/exchange/step_exchange.h"

#include <algorithm>
#include <utility>

#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/part_clock.h"
#include "compress/route/downlink_forms.h"
#include "compress/route/exchange_algorithm.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

StepExchange::StepExchange(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                           const CompressedAllReduceOptions& options, const Stream& stream, const MemoryOptions& memory)
    : layout_(layout),
      plan_(std::move(plan)),
      peers_(peers),
      options_(options),
      stream_(stream),
      flags_(options.on_nonfinite, stream_),
      factors_(layout_, plan_, stream_.device()),
      places_(static_cast<std::size_t>(layout.num_segments())) {
  TERNGRAD_REQUIRE(options.update == nullptr, "[parts] an update of shards needs all tensors at once");
  if (memory.kind != MemoryKind::kNone) {
    memory_.emplace(layout_, plan_, memory, workers().num_local_workers, stream_.device());
  }
  // Refuses unsupported options now, not in the first step.
  choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout_, plan_, workers().num_workers);
  DownlinkForms(plan_, options.downlink_codec, workers().num_workers);
  if (!is_on_cpu()) require_device_downlink(options.downlink_codec);
  require_downlink(plan_, options.downlink_codec, options.algorithm);
}

StepExchange::StepExchange(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                           const CompressedAllReduceOptions& options, const MemoryOptions& memory)
    : StepExchange(layout, std::move(plan), peers, options, Stream(Device::cpu(), options.num_threads), memory) {}

bool StepExchange::is_whole(std::span<const int> segments) const {
  return std::ranges::equal(segments, whole_bucket(layout_)[0]);
}

StepExchange::Part& StepExchange::part_of(std::span<const int> segments) {
  std::vector<int> key(segments.begin(), segments.end());
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  TERNGRAD_REQUIRE(!segments.empty(), "[parts] a part without tensors");
  Layout selection = is_whole(segments) ? layout_ : layout_.select(segments);
  for (const CodecPlan::Group& group : plan_.groups()) {
    TERNGRAD_REQUIRE(group.codec->traits().per_tensor || selection.num_segments() == layout_.num_segments(),
                     "[parts] the codec ", group.codec->name(),
                     " needs all of its tensors at once (scaler_scope model), this part has ", selection.num_segments(),
                     " of ", layout_.num_segments());
  }
  Part part{.segments = key, .layout = std::move(selection)};
  return parts_.emplace(std::move(key), std::move(part)).first->second;
}

std::unique_ptr<PartExchange> StepExchange::make_exchange(const Part& part) {
  CodecPlan plan = is_whole(part.segments) ? plan_ : CodecPlan(plan_, part.layout, part.segments);
  CompressedAllReduceOptions own = options_;
  own.algorithm = algorithm_of_part(options_.algorithm, plan_, plan);
  return make_part_exchange(part.layout, std::move(plan), {peers_, own, stream_, flags_, factors_}, part.segments);
}

void StepExchange::begin(std::uint64_t step) {
  TERNGRAD_REQUIRE(step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step);
  step_ = step;
  for (auto& [segments, part] : parts_) part.is_used = false;
  places_.assign(places_.size(), {});
  flags_.begin_step(stream_);
  is_begun_ = true;
  has_failed_ = false;
  report_ = {};
}

void StepExchange::require_step() const {
  TERNGRAD_REQUIRE(is_begun_, "[parts] no step has begun");
  TERNGRAD_REQUIRE(!has_failed_, "[parts] a part of step ", step_, " has failed: another step has to begin");
}

void StepExchange::run(Part& part, std::span<const TensorTable> gradients, const TensorTable& mean, PartClock& clock) {
  clock.start(stream_);
  if (memory_.has_value()) {
    part.encoded = memory_->compensate_part(part.layout, part.segments, gradients, stream_);
    clock.lap(&ExchangeReport::encode_seconds, stream_);
  }
  part.exchange->run(memory_.has_value() ? part.encoded : gradients, mean, {step_, nullptr}, stream_, clock);
}

ExchangeReport StepExchange::exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                                      const TensorTable& mean) {
  require_step();
  Part& part = part_of(segments);
  for (const int segment : part.segments) {
    TERNGRAD_REQUIRE(places_[static_cast<std::size_t>(segment)].part == nullptr, "[parts] tensor '",
                     layout_.segment(segment).name, "' was exchanged before in step ", step_);
  }
  if (part.exchange == nullptr) part.exchange = make_exchange(part);
  has_failed_ = true;  // reset at the end, unless this throws
  PartClock clock(stream_.device(), /*is_on=*/is_on_cpu());
  NonfiniteTensors before;
  if (is_on_cpu()) before = flags_.take_on_cpu();
  run(part, gradients, mean, clock);
  ExchangeReport report{part.exchange->bytes()};
  clock.add_to(report);
  report_ += report;
  if (is_on_cpu()) {
    // For the report of the part; finish applies the policy.
    flags_.found(stream_).apply_policy(OnNonfinite::kZero, layout_, workers().num_workers, step_, report);
    flags_.add_on_cpu(before);
  }
  part.is_used = true;
  for (std::size_t i = 0; i < part.segments.size(); ++i) {
    places_[static_cast<std::size_t>(part.segments[i])] = {&part, static_cast<int>(i)};
  }
  has_failed_ = false;
  return report;
}

ExchangeReport StepExchange::finish() {
  require_step();
  is_begun_ = false;
  if (is_on_cpu()) report();
  PartClock clock(stream_.device(), /*is_on=*/is_on_cpu());
  clock.start(stream_);
  std::erase_if(parts_, [](const auto& entry) { return !entry.second.is_used; });
  for (auto& [segments, part] : parts_) {
    if (report_.skipped) continue;
    part.exchange->commit(stream_);
    if (!memory_.has_value()) continue;
    for (const MemoryTables& tables : memory_->kept_of(part.layout, part.segments, part.encoded)) {
      part.exchange->update_memory(tables.what, tables.from, tables.into, stream_);
    }
  }
  clock.lap(&ExchangeReport::encode_seconds, stream_);
  clock.add_to(report_);
  return report_;
}

ExchangeReport StepExchange::report() {
  flags_.found(stream_).apply_policy(options_.on_nonfinite, layout_, workers().num_workers, step_, report_);
  return report_;
}

float StepExchange::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  const Place& place = places_[static_cast<std::size_t>(segment)];
  TERNGRAD_REQUIRE(place.part != nullptr, "[exchange] the last step sent nothing of tensor ", segment);
  return place.part->exchange->decode_local(local_worker, place.segment, out, stream_);
}

}  // namespace terngrad
