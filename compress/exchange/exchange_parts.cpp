#include "compress/exchange/exchange_parts.h"

#include <chrono>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"

namespace terngrad {

ExchangeParts::ExchangeParts(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                             const CompressedAllReduceOptions& options, const MemoryOptions& memory)
    : layout_(layout),
      workers_(std::move(workers)),
      options_(options),
      plan_(std::move(plan)),
      stream_(Device::cpu(), options.num_threads),
      places_(static_cast<std::size_t>(layout.num_segments())) {
  // An update cannot be taken back if a later part drops the step.
  TERNGRAD_REQUIRE(options.update == nullptr, "[parts] an update of shards needs all tensors at once");
  if (memory.kind != MemoryKind::kNone) memory_.emplace(layout_, plan_, memory, workers_.num_local_workers);
  // What the options ask for is refused now, and not in the first step.
  choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout_, plan_, workers_.num_workers);
  DownlinkForms(plan_, options.downlink_codec, workers_.num_workers);
}

ExchangeParts::Part& ExchangeParts::part_of(std::span<const int> segments) {
  std::vector<int> key(segments.begin(), segments.end());
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  TERNGRAD_REQUIRE(!segments.empty(), "[parts] a part without tensors");
  Layout selection = layout_.select(segments);
  for (const CodecPlan::Group& group : plan_.groups()) {
    TERNGRAD_REQUIRE(group.codec->traits().per_tensor || selection.num_segments() == layout_.num_segments(),
                     "[parts] the codec ", group.codec->name(),
                     " needs all of its tensors at once (scaler_scope model), this part has ", selection.num_segments(),
                     " of ", layout_.num_segments());
  }
  Part part{.segments = key, .layout = std::move(selection)};
  return parts_.emplace(std::move(key), std::move(part)).first->second;
}

const Layout& ExchangeParts::layout_of(std::span<const int> segments) { return part_of(segments).layout; }

void ExchangeParts::begin(std::uint64_t step) {
  TERNGRAD_REQUIRE(step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step);
  step_ = step;
  is_begun_ = true;
  has_failed_ = false;
  has_sent_ = false;
  report_ = {};
  found_ = {};
  for (auto& [segments, part] : parts_) part.is_used = false;
  places_.assign(places_.size(), {});
}

ExchangeReport ExchangeParts::exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                                       const TensorTable& mean) {
  require_step();
  Part& part = part_of(segments);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Place& place = places_[static_cast<std::size_t>(segments[i])];
    TERNGRAD_REQUIRE(place.part == nullptr, "[parts] tensor '", layout_.segment(segments[i]).name,
                     "' was exchanged before in step ", step_);
  }
  if (part.exchange == nullptr) {
    CodecPlan plan(plan_, part.layout, part.segments);
    CompressedAllReduceOptions own = options_;
    own.algorithm = algorithm_of_part(options_.algorithm, plan_, plan);
    part.exchange = std::make_unique<CompressedAllReduce>(part.layout, std::move(plan), workers_, own);
  }
  has_failed_ = true;  // unless this comes to its end
  auto mark = std::chrono::steady_clock::now();
  if (memory_.has_value()) part.encoded = memory_->compensate_part(part.layout, part.segments, gradients, stream_);
  const double compensate_seconds = lap_seconds(mark);
  NonfiniteTensors found;
  ExchangeReport report =
      part.exchange->exchange_part(memory_.has_value() ? part.encoded : gradients, mean, step_, found);
  report.encode_seconds += compensate_seconds;
  report_ += report;
  found_.add(found);
  part.is_used = true;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    places_[static_cast<std::size_t>(segments[i])] = {&part, static_cast<int>(i)};
  }
  found.apply_policy(OnNonfinite::kZero, step_, report);  // says what it was; the policy is for the whole step
  has_failed_ = false;
  return report;
}

void ExchangeParts::require_step() const {
  TERNGRAD_REQUIRE(is_begun_, "[parts] no step has begun");
  TERNGRAD_REQUIRE(!has_failed_, "[parts] a part of step ", step_, " has failed: another step has to begin");
}

ExchangeReport ExchangeParts::finish() {
  require_step();
  is_begun_ = false;
  std::erase_if(parts_, [](const auto& entry) { return !entry.second.is_used; });
  found_.apply_policy(options_.on_nonfinite, step_, report_);
  has_sent_ = !report_.skipped;
  if (!memory_.has_value() || report_.skipped) return report_;
  auto mark = std::chrono::steady_clock::now();
  for (auto& [segments, part] : parts_) {
    part.exchange->keep(memory_->kept(), part.encoded, memory_->states_of(part.layout, segments));
  }
  report_.encode_seconds += lap_seconds(mark);
  return report_;
}

float ExchangeParts::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  const Place& place = places_[static_cast<std::size_t>(segment)];
  TERNGRAD_REQUIRE(has_sent_ && place.part != nullptr, "[exchange] the last step sent nothing of tensor ", segment);
  return place.part->exchange->decode_local(local_worker, place.segment, out);
}

}  // namespace terngrad
