#include "compress/exchange/exchange_parts.h"

#include <chrono>
#include <memory>
#include <utility>

#include "compress/exchange/part_clock.h"
#include "compress/route/downlink_forms.h"
#include "compress/route/exchange_algorithm.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"

namespace terngrad {

ExchangeParts::ExchangeParts(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                             const CompressedAllReduceOptions& options, const MemoryOptions& memory)
    : workers_(std::move(workers)),
      options_(options),
      parts_(layout, std::move(plan)),
      stream_(Device::cpu(), options.num_threads),
      flags_(options.on_nonfinite, stream_),
      factors_(parts_.layout(), parts_.plan()) {
  // An update cannot be undone if a later part drops the step.
  TERNGRAD_REQUIRE(options.update == nullptr, "[parts] an update of shards needs all tensors at once");
  if (memory.kind != MemoryKind::kNone) {
    memory_.emplace(this->layout(), this->plan(), memory, workers_.num_local_workers);
  }
  // Refuses unsupported options now, not in the first step.
  choose_algorithm(options.algorithm, options.owners, options.downlink_codec, this->layout(), this->plan(),
                   workers_.num_workers);
  DownlinkForms(this->plan(), options.downlink_codec, workers_.num_workers);
  require_downlink(this->plan(), options.downlink_codec, options.algorithm);
}

const Layout& ExchangeParts::layout_of(std::span<const int> segments) { return parts_.of(segments).layout; }

void ExchangeParts::begin(std::uint64_t step) {
  parts_.begin(step);
  is_begun_ = true;
  has_failed_ = false;
  has_sent_ = false;
  report_ = {};
  flags_.begin_step(stream_);
}

ExchangeReport ExchangeParts::exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                                       const TensorTable& mean) {
  require_step();
  auto& part = parts_.of(segments);
  parts_.require_new(segments);
  if (part.exchange == nullptr) {
    CodecPlan plan(this->plan(), part.layout, part.segments);
    CompressedAllReduceOptions own = options_;
    own.algorithm = algorithm_of_part(options_.algorithm, this->plan(), plan);
    part.exchange =
        make_part_exchange(part.layout, std::move(plan), {workers_, own, stream_, flags_, factors_}, part.segments);
  }
  has_failed_ = true;  // reset at the end, unless this throws
  auto mark = std::chrono::steady_clock::now();
  if (memory_.has_value()) part.encoded = memory_->compensate_part(part.layout, part.segments, gradients, stream_);
  const double compensate_seconds = lap_seconds(mark);
  PartClock clock(stream_.device(), /*is_on=*/true);
  const NonfiniteTensors before = flags_.take_on_cpu();
  part.exchange->run(memory_.has_value() ? part.encoded : gradients, mean, {parts_.step(), nullptr}, stream_, clock);
  const NonfiniteTensors found = flags_.found(stream_);
  flags_.add_on_cpu(before);
  ExchangeReport report{part.exchange->bytes()};
  clock.add_to(report);
  report.encode_seconds += compensate_seconds;
  report_ += report;
  parts_.add(part);
  // For the report; finish applies the policy.
  found.apply_policy(OnNonfinite::kZero, layout(), workers_.num_workers, parts_.step(), report);
  has_failed_ = false;
  return report;
}

void ExchangeParts::require_step() const {
  TERNGRAD_REQUIRE(is_begun_, "[parts] no step has begun");
  TERNGRAD_REQUIRE(!has_failed_, "[parts] a part of step ", parts_.step(), " has failed: another step has to begin");
}

ExchangeReport ExchangeParts::finish() {
  require_step();
  is_begun_ = false;
  flags_.found(stream_).apply_policy(options_.on_nonfinite, layout(), workers_.num_workers, parts_.step(), report_);
  has_sent_ = !report_.skipped;
  auto mark = std::chrono::steady_clock::now();
  parts_.finish([&](auto& part) {
    if (report_.skipped) return;
    part.exchange->commit(stream_);
    if (!memory_.has_value()) return;
    for (const MemoryTables& tables : memory_->kept_of(part.layout, part.segments, part.encoded)) {
      part.exchange->update_memory(tables.what, tables.from, tables.into, stream_);
    }
  });
  report_.encode_seconds += lap_seconds(mark);
  return report_;
}

float ExchangeParts::decode_local(int local_worker, int segment, std::span<float> out) {
  const auto& place = parts_.place_of(segment);
  TERNGRAD_REQUIRE(has_sent_ && place.part != nullptr, "[exchange] the last step sent nothing of tensor ", segment);
  return place.part->exchange->decode_local(local_worker, place.segment, out, stream_);
}

}  // namespace terngrad
