#include "compress/exchange/compressed_all_reduce.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "compress/exchange/group_means.h"
#include "compress/exchange/mean_estimate.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_clock.h"
#include "compress/exchange/round.h"
#include "compress/memory/saved_states.h"
#include "compress/memory/shared_state.h"
#include "compress/memory/worker_memory.h"
#include "compress/route/exchange_algorithm.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

/// A set of tensors and its exchange.
struct CompressedAllReduce::Part {
  std::vector<int> segments;
  Layout layout;
  std::unique_ptr<PartExchange> exchange;
  std::unique_ptr<GroupMeans> groups;      // null if workers exchange their own gradients
  std::unique_ptr<MeanEstimate> estimate;  // null if the mean of the messages is the result
  bool is_used = false;                    // in the current step
  std::vector<TensorTable> encoded = {};   // compensated gradients of the current step, if workers have a memory
};

/// A stage of the codecs (CodecPlan::stages) and its parts, by their tensors.
struct CompressedAllReduce::Stage {
  CodecPlan plan;
  std::map<std::vector<int>, std::unique_ptr<Part>> parts;
};

CompressedAllReduce::CompressedAllReduce(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options, const Stream& stream,
                                         const MemoryOptions& memory)
    : layout_(layout),
      plan_(std::move(plan)),
      peers_(peers),
      options_(options),
      stream_(stream),
      flags_(std::make_unique<NonfiniteFlags>(options.on_nonfinite, stream_)),
      shared_state_(std::make_unique<SharedState>(layout_, plan_, memory.kind, stream_.device())),
      all_(whole_bucket(layout)[0]),
      first_steps_(is_on_cpu() ? std::vector<std::uint64_t>{0} : plan_.stages()),
      places_(all_.size()) {
  use_codecs_of(0);
  // Refuses unsupported options now, not in the first step.
  require_supported(plan_, context(options_), memory.kind);
  if (memory.kind == MemoryKind::kNone) return;
  memory_ = std::make_unique<WorkerMemory>(layout_, plan_, memory, workers().num_local_workers, stream_.device());
}

CompressedAllReduce::~CompressedAllReduce() = default;

CompressedAllReduce::CompressedAllReduce(const Layout& layout, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options, const Stream& stream,
                                         const MemoryOptions& memory)
    : CompressedAllReduce(layout, CodecPlan(layout, with_workers(options.codecs, peers.group.num_workers)), peers,
                          options, stream, memory) {}

CompressedAllReduce::CompressedAllReduce(const Layout& layout, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options, const MemoryOptions& memory)
    : CompressedAllReduce(layout, peers, options, Stream(Device::cpu(), options.num_threads), memory) {}

bool CompressedAllReduce::is_whole(std::span<const int> segments) const { return std::ranges::equal(segments, all_); }

CompressedAllReduce::Part& CompressedAllReduce::part_of(std::span<const int> segments) {
  std::vector<int> key(segments.begin(), segments.end());
  const auto found = stage_->parts.find(key);
  if (found != stage_->parts.end()) return *found->second;
  return *stage_->parts.emplace(key, make_part(key)).first->second;
}

void CompressedAllReduce::use_codecs_of(std::uint64_t step) {
  const std::uint64_t first = *std::prev(std::ranges::upper_bound(first_steps_, step));
  std::unique_ptr<Stage>& stage = stages_[first];
  if (stage == nullptr) {
    CodecPlan plan = first_steps_.size() > 1 ? plan_.at_step(first) : plan_;
    stage = std::make_unique<Stage>(Stage{.plan = std::move(plan), .parts = {}});
  }
  stage_ = stage.get();
}

std::unique_ptr<CompressedAllReduce::Part> CompressedAllReduce::make_part(const std::vector<int>& segments) {
  TERNGRAD_REQUIRE(!segments.empty() || all_.empty(), "[parts] a part without tensors");
  Layout layout = is_whole(segments) ? layout_ : layout_.select(segments);
  const bool has_all = layout.num_segments() == layout_.num_segments();
  for (const CodecPlan::Group& group : plan_.groups()) {
    TERNGRAD_REQUIRE(group.codec->traits().per_tensor || has_all, "[parts] the codec ", group.codec->name(),
                     " needs all of its tensors at once (scaler_scope model), this part has ", layout.num_segments(),
                     " of ", layout_.num_segments());
  }
  TERNGRAD_REQUIRE(options_.update == nullptr || is_whole(segments),
                   "[parts] an update of shards needs all tensors at once, in the order of the layout");
  CodecPlan plan = is_whole(segments) ? stage_->plan : CodecPlan(stage_->plan, layout, segments);
  CompressedAllReduceOptions options = options_;
  options.algorithm = algorithm_of_part(options_.algorithm, stage_->plan, plan);
  std::unique_ptr<PartExchange> exchange = make_part_exchange(layout, std::move(plan), context(options), segments);
  auto part = std::make_unique<Part>(Part{.segments = segments,
                                          .layout = std::move(layout),
                                          .exchange = std::move(exchange),
                                          .groups = nullptr,
                                          .estimate = nullptr});
  if (has_groups()) part->groups = std::make_unique<GroupMeans>(part->layout, context(options_));
  if (estimates_mean() && takes_part()) {
    part->estimate = std::make_unique<MeanEstimate>(part->layout, context(options_), segments);
  }
  return part;
}

bool CompressedAllReduce::estimates_mean() const {
  return memory_ != nullptr && memory_->options().kind == MemoryKind::kEf21;
}

PartContext CompressedAllReduce::context(const CompressedAllReduceOptions& options) {
  return {.peers = peers_,
          .options = options,
          .stream = stream_,
          .flags = *flags_,
          .shared = *shared_state_,
          .estimates_mean = estimates_mean()};
}

const Layout& CompressedAllReduce::layout_of(std::span<const int> segments) { return part_of(segments).layout; }

const PartExchange& CompressedAllReduce::part(std::span<const int> segments) { return *part_of(segments).exchange; }

std::set<std::string> CompressedAllReduce::codecs_through_host(const Buckets& parts) {
  if (!takes_part()) {
    // The answer is that of the rank which encodes: all ranks of a group capture steps, or none.
    const ExchangePeers alone(worker_range(workers().num_workers, 0, 1), make_self_device_communicator());
    return CompressedAllReduce(layout_, plan_, alone, options_, stream_).codecs_through_host(parts);
  }
  std::set<std::string> names;
  for (const std::vector<int>& segments : parts) {
    for (const Round* const round : part(segments).rounds()) names.merge(round->codecs_through_host());
  }
  return names;
}

std::vector<SavedState> CompressedAllReduce::states() {
  return saved_states(memory_.get(), shared_state_.get(), workers().first_local_worker);
}

void CompressedAllReduce::begin(const DeviceStep& step) {
  TERNGRAD_REQUIRE(step.step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step.step);
  if (step.on_device == nullptr) use_codecs_of(step.step);
  step_ = step;
  for (const auto& [segments, part] : stage_->parts) part->is_used = false;
  places_.assign(places_.size(), {});
  flags_->begin_step(stream_);
  is_begun_ = true;
  has_failed_ = false;
  is_timed_ = is_on_cpu();
  report_ = {};
}

void CompressedAllReduce::require_step() const {
  TERNGRAD_REQUIRE(is_begun_, "[parts] no step has begun");
  TERNGRAD_REQUIRE(!has_failed_, "[parts] a part of step ", step_.step, " has failed: another step has to begin");
}

void CompressedAllReduce::run(Part& part, std::span<const TensorTable> gradients, const TensorTable& mean,
                              PartClock& clock) {
  if (part.groups != nullptr) gradients = part.groups->reduce(gradients, step_, stream_, clock);
  if (memory_ != nullptr) {
    clock.start(stream_);
    part.encoded = memory_->compensate(part.layout, part.segments, gradients, step_, stream_);
    clock.lap(&ExchangeReport::encode_seconds, stream_);
    gradients = part.encoded;
  }
  const std::uint64_t count_before = flags_->count_on_cpu();
  part.exchange->run(gradients, mean, step_, stream_, clock);
  // On the CPU a part that is not finite, whose step is dropped, has no mean.
  if (part.estimate != nullptr && flags_->count_on_cpu() == count_before) {
    clock.start(stream_);
    part.estimate->apply(mean, stream_);
    clock.lap(&ExchangeReport::decode_seconds, stream_);
  }
  if (part.groups != nullptr) part.groups->spread(mean, *flags_, stream_, clock);
}

ExchangeReport CompressedAllReduce::exchange(std::span<const int> segments, std::span<const TensorTable> gradients,
                                             const TensorTable& mean) {
  if (is_whole(segments)) return exchange_part(segments, gradients, mean);
  require_step();
  const Layout& layout = layout_of(segments);
  return exchange_part(segments, select_tensors(gradients, layout, segments), mean.select(layout, segments));
}

ExchangeReport CompressedAllReduce::exchange_part(std::span<const int> segments, std::span<const TensorTable> gradients,
                                                  const TensorTable& mean) {
  require_step();
  Part& part = part_of(segments);
  for (const int segment : part.segments) {
    TERNGRAD_REQUIRE(places_[static_cast<std::size_t>(segment)].part == nullptr, "[parts] tensor '",
                     layout_.segment(segment).name, "' was exchanged before in step ", step_.step);
  }
  has_failed_ = true;  // reset at the end, unless this throws
  PartClock clock(stream_.device(), is_timed_);
  NonfiniteTensors before;
  if (is_on_cpu()) before = flags_->take_on_cpu();
  run(part, gradients, mean, clock);
  ExchangeReport report{part.exchange->bytes()};
  clock.add_to(report);
  report_ += report;
  if (is_on_cpu()) {
    // For the report of the part; finish applies the policy.
    apply_policy(OnNonfinite::kZero, step_.step, report);
    flags_->add_on_cpu(before);
  }
  part.is_used = true;
  for (std::size_t i = 0; i < part.segments.size(); ++i) {
    places_[static_cast<std::size_t>(part.segments[i])] = {&part, static_cast<int>(i)};
  }
  has_failed_ = false;
  return report;
}

ExchangeReport CompressedAllReduce::finish() {
  require_step();
  is_begun_ = false;
  if (is_on_cpu()) report_ = report(step_.step);
  PartClock clock(stream_.device(), is_timed_);
  clock.start(stream_);
  std::erase_if(stage_->parts, [](const auto& entry) { return !entry.second->is_used; });
  for (const auto& [segments, part] : stage_->parts) {
    if (report_.skipped) continue;
    part->exchange->commit(stream_);
    if (part->estimate != nullptr) part->estimate->commit(stream_);
    if (memory_ == nullptr) continue;
    for (const MemoryTables& tables : memory_->kept(part->layout, part->segments, part->encoded)) {
      part->exchange->update_memory(tables.what, tables.from, tables.into, stream_);
    }
  }
  clock.lap(&ExchangeReport::encode_seconds, stream_);
  clock.add_to(report_);
  return report_;
}

ExchangeReport CompressedAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                             std::uint64_t step) {
  begin(step);
  is_timed_ = true;
  exchange(all_, gradients, mean);
  const ExchangeReport done = finish();
  return is_on_cpu() ? done : report(step);
}

ExchangeReport CompressedAllReduce::report(std::uint64_t step) {
  ExchangeReport report = report_;
  apply_policy(options_.on_nonfinite, step, report);
  return report;
}

void CompressedAllReduce::apply_policy(OnNonfinite policy, std::uint64_t step, ExchangeReport& report) {
  flags_->found(stream_).apply_policy(policy, layout_, workers().num_workers, step, report,
                                      has_groups() ? "group" : "worker");
}

void CompressedAllReduce::send_heartbeat() {
  if (workers().communicator != nullptr) workers().communicator->send_heartbeat();
  for (const WorkerGroup& group : peers_.members.groups) {
    if (group.communicator != nullptr) group.communicator->send_heartbeat();
  }
}

const std::uint32_t* CompressedAllReduce::skip() const { return flags_->skip(); }

void CompressedAllReduce::forget_nonfinite() { flags_->forget(stream_); }

const CompressedAllReduce::Place& CompressedAllReduce::place_of(int segment) const {
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  const Place& place = places_[static_cast<std::size_t>(segment)];
  TERNGRAD_REQUIRE(place.part != nullptr, "[exchange] the last step sent nothing of tensor ", segment);
  return place;
}

float CompressedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  const Place& place = place_of(segment);
  return place.part->exchange->decode_local(local_worker, place.segment, out, stream_);
}

std::span<const float> CompressedAllReduce::encoded(int local_worker, int segment) const {
  if (memory_ == nullptr || !memory_->covers(segment)) return {};
  return tensor_of(place_of(segment).part->encoded, local_worker, segment);
}

std::span<const float> CompressedAllReduce::group_mean(int local_group, int segment) const {
  if (!has_groups()) return {};
  return tensor_of(place_of(segment).part->groups->means(), local_group, segment);
}

std::span<const float> CompressedAllReduce::tensor_of(std::span<const TensorTable> tables, int local_worker,
                                                      int segment) const {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < workers().num_local_workers, "[exchange] no local worker ",
                   local_worker);
  return {tables[static_cast<std::size_t>(local_worker)].tensor(place_of(segment).segment),
          static_cast<std::size_t>(layout_.segment(segment).num_elements)};
}

}  // namespace terngrad
