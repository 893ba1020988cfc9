#include "compress/exchange/round.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "compress/exchange/mean_check.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/overflow.h"
#include "compress/exchange/part_clock.h"
#include "compress/exchange/shard_update.h"
#include "compress/exchange/vendor_round.h"
#include "compress/plan/combinations.h"
#include "compress/plan/low_rank_rounds.h"
#include "compress/route/downlink_forms.h"
#include "compress/route/exchange_algorithm.h"
#include "compress/transport/downlink.h"
#include "compress/transport/exchange_peers.h"
#include "compress/transport/transport.h"
#include "compress/wire/gradient_transport.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

CoderSetup make_setup(const Layout& layout, const PartContext& context, std::vector<int> numbers) {
  return {.layout = layout,
          .workers = context.peers.group,
          .seed = context.options.seed,
          .drops_nonfinite_steps = context.options.on_nonfinite != OnNonfinite::kZero,
          .finds_nonfinite = context.finds_nonfinite,
          .device = context.stream.device(),
          .numbers = std::move(numbers)};
}

ExchangeAlgorithm algorithm_of(const Layout& layout, const CodecPlan& plan, const PartContext& context) {
  const CompressedAllReduceOptions& options = context.options;
  return choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout, plan,
                          context.peers.group.num_workers);
}

/// The route of the algorithm asked for, or chosen.
/// @throws InvalidArgument for a combination of options that is not supported
Route route_of(const Layout& layout, const CodecPlan& plan, const PartContext& context) {
  const CompressedAllReduceOptions& options = context.options;
  for (const CodecPlan::Group& group : plan.groups()) {
    TERNGRAD_REQUIRE(!group.codec->low_rank(), "[exchange] ", group.spec, " takes two rounds (LowRankRound)");
  }
  // State that an update keeps per shard outlives the plan if codecs change from step to step, so shards for updates
  // depend on the layout alone; most of their bytes are those of the updated values anyway.
  return make_route(algorithm_of(layout, plan, context), layout, plan, num_shards(context.peers.group, options.owners),
                    options.update != nullptr);
}

/// Hash of everything that ranks must agree on: the plan, and options that change the result or the messages.
std::uint64_t exchange_fingerprint(const Layout& layout, const CodecPlan& plan, const PartContext& context,
                                   ExchangeAlgorithm algorithm) {
  const CompressedAllReduceOptions& options = context.options;
  const WorkerGroup& workers = context.peers.group;
  Fingerprint hash;
  hash.add(plan.fingerprint()).add(word_of(options.downlink_codec)).add(word_of(algorithm));
  hash.add(static_cast<std::uint64_t>(options.on_nonfinite)).add(options.seed);
  if (!context.peers.members.groups.empty()) {
    hash.add("groups").add(static_cast<std::uint64_t>(context.peers.members.groups.front().num_workers));
  }
  if (context.estimates_mean) hash.add("estimates");
  if (options.mean_factor != 1) hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(options.mean_factor)});
  if (options.owners == ShardOwners::kServers) {
    hash.add(to_string(options.owners)).add(std::uint64_t{options.update != nullptr});
    hash.add(static_cast<std::uint64_t>(workers.num_servers));
  }
  if (workers.communicator == nullptr) return hash.value();
  // A message with the sum over a subtree names its first worker only; the subtrees follow from the number of ranks.
  if (GradientTransport(layout, plan, ranks_of(workers), workers.communicator->rank()).adds_any()) {
    hash.add("subtrees").add(static_cast<std::uint64_t>(workers.communicator->size()));
  }
  return hash.value();
}

std::vector<std::unique_ptr<Coder>> coders_of(const CodecPlan& plan, const CoderSetup& setup, Transport& transport) {
  std::vector<std::unique_ptr<Coder>> coders;
  for (std::size_t group = 0; group < plan.groups().size(); ++group) {
    const CodecPlan::Group& tensors = plan.groups()[group];
    coders.push_back(tensors.codec->make_coder(setup, tensors.segments, transport.slots(group)));
  }
  return coders;
}

/// Tensors whose mean can overflow. That of one worker with a lossless codec is its gradient, found to be finite.
std::vector<int> checked_tensors(std::span<const std::unique_ptr<Coder>> coders, const CoderSetup& setup,
                                 const PartContext& context) {
  const CompressedAllReduceOptions& options = context.options;
  if (!setup.finds_nonfinite || context.estimates_mean) return {};
  const bool is_alone = setup.workers.num_workers == 1 && options.downlink_codec == DownlinkCodec::kFloat32;
  const bool is_exact = std::ranges::all_of(coders, [](const auto& c) { return c->codec().traits().is_exact; });
  if (is_alone && is_exact && options.mean_factor <= 1) return {};
  return overflowing_tensors(coders, options.mean_factor);
}

}  // namespace

void require_supported(const CodecPlan& plan, const PartContext& context, MemoryKind memory) {
  const CompressedAllReduceOptions& options = context.options;
  const bool has_servers = options.owners == ShardOwners::kServers;
  const int num_servers = context.peers.group.num_servers;
  TERNGRAD_REQUIRE(has_servers || num_servers == 0, "[exchange] ", num_servers, " servers, but workers own the shards");
  const GroupMembers& members = context.peers.members;
  require_combination(plan, {.algorithm = options.algorithm,
                             .downlink_codec = options.downlink_codec,
                             .memory = memory,
                             .on_nonfinite = options.on_nonfinite,
                             .is_vendor = options.vendor_type.has_value(),
                             .has_servers = has_servers,
                             .updates_shards = options.update != nullptr,
                             .has_groups = !members.groups.empty(),
                             .is_on_gpus = context.peers.device != nullptr || members.device != nullptr});
}

Round::Round(const Layout& layout, CodecPlan plan, const PartContext& context, std::vector<int> numbers)
    : setup_(make_setup(layout, context, std::move(numbers))),
      options_(context.options),
      plan_(std::move(plan)),
      route_(route_of(setup_.layout, plan_, context)),
      fingerprint_(exchange_fingerprint(setup_.layout, plan_, context, route_.algorithm)),
      transport_(make_transport(setup_.layout, plan_, context.peers,
                                {.route = route_,
                                 .is_chosen = options_.algorithm == ExchangeAlgorithm::kAuto,
                                 .downlink_codec = options_.downlink_codec,
                                 .owners = options_.owners,
                                 .context = {options_.run_id, fingerprint_, 0, {}}},
                                setup_.device)),
      coders_(coders_of(plan_, setup_, *transport_)),
      downlink_(std::make_unique<Downlink>(setup_, plan_, coders_, transport_->forms(), transport_->mean_parts(),
                                           transport_->others_read_mean())),
      max_mean_(max_mean(options_.mean_factor)),
      mean_check_(std::make_unique<MeanCheck>(setup_, checked_tensors(coders_, setup_, context), max_mean_)),
      whole_(whole_segments(setup_.layout)),
      wire_time_(transport_->reaches_others() ? &ExchangeReport::wire_seconds : &ExchangeReport::decode_seconds),
      flags_(context.flags) {
  Stream stream = context.stream;
  stream.synchronize();
}

Round::~Round() = default;

ExchangeBytes Round::bytes() const { return transport_->bytes(); }

std::set<std::string> Round::codecs_through_host() const {
  std::set<std::string> names;
  for (const auto& coder : coders_) {
    if (coder->goes_through_host()) names.insert(coder->codec().name());
  }
  return names;
}

bool Round::is_dropped(std::uint64_t count_before) const {
  return setup_.device.is_cpu() && setup_.drops_nonfinite_steps && flags_.count_on_cpu() > count_before;
}

void Round::run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step, Stream& stream,
                PartClock& clock) {
  require_tables(gradients, mean, setup_.workers);
  transport_->begin(step.step);
  has_run_ = false;
  clock.start(stream);
  for (const auto& coder : coders_) coder->measure(gradients, step, stream);
  clock.lap(&ExchangeReport::measure_seconds, stream);
  transport_->share_scalers(coders_, stream);
  clock.lap(wire_time_, stream);
  const std::uint64_t count_before = flags_.count_on_cpu();
  for (const auto& coder : coders_) {
    coder->combine_scalers(flags_.gradients(), flags_.skip_flag(), flags_.stop_latched(), stream);
  }
  clock.lap(&ExchangeReport::measure_seconds, stream);
  if (is_dropped(count_before)) return;
  for (const auto& coder : coders_) coder->encode(gradients, step, stream);
  clock.lap(&ExchangeReport::encode_seconds, stream);
  transport_->move_payloads(coders_, stream);
  clock.lap(wire_time_, stream);
  for (std::size_t group = 0; group < coders_.size(); ++group) {
    coders_[group]->aggregate(mean, transport_->forms().unit(plan_.groups()[group].segments.front()), stream);
  }
  return_mean(mean, step, stream, clock);
  clock.lap(&ExchangeReport::decode_seconds, stream);
  has_run_ = true;
}

void Round::return_mean(const TensorTable& mean, const DeviceStep& step, Stream& stream, PartClock& clock) {
  downlink_->measure(mean, stream);
  clock.lap(&ExchangeReport::decode_seconds, stream);
  transport_->share_maxima(coders_, *downlink_, stream);
  clock.lap(wire_time_, stream);
  downlink_->scale(stream);
  if (options_.update != nullptr && !update_shards(mean, step, stream)) return;
  clock.lap(&ExchangeReport::decode_seconds, stream);
  transport_->begin_mean(*downlink_);
  downlink_->encode(mean, step, stream);
  clock.lap(&ExchangeReport::encode_seconds, stream);
  transport_->return_mean(*downlink_, stream);
  clock.lap(wire_time_, stream);
  downlink_->decode(mean, stream);
  if (options_.update != nullptr) return;
  for (const auto& coder : coders_) coder->finish(mean, whole_, step, stream);
  mean_check_->submit(
      mean, {.report = flags_.means(), .skip = flags_.skip_flag(), .stop_latched = flags_.stop_latched()}, stream);
}

bool Round::update_shards(const TensorTable& mean, const DeviceStep& step, Stream& stream) {
  // Each owner sees overflow in its own shards only, so all ranks must agree before anything is updated.
  std::vector<std::uint32_t> overflowed(static_cast<std::size_t>(setup_.layout.num_segments()));
  const Transport::OwnShards own = transport_->own_shards();
  for (const std::vector<Slice>& slices : own.slices) {
    for (const auto& coder : coders_) coder->finish(mean, slices, step, stream);
    for (const Slice& slice : slices) {
      const std::span<const float> values(mean.slice(slice), static_cast<std::size_t>(slice.count));
      if (!are_within(values, max_mean_, stream)) overflowed[static_cast<std::size_t>(slice.segment)] = 1;
    }
  }
  transport_->share_overflow(overflowed);
  for (std::size_t segment = 0; segment < overflowed.size(); ++segment) {
    if (overflowed[segment] != 0) flags_.add_mean_on_cpu(setup_.number_of(static_cast<int>(segment)));
  }
  if (std::ranges::find(overflowed, 1u) != overflowed.end() && setup_.drops_nonfinite_steps) return false;
  for (std::size_t i = 0; i < own.slices.size(); ++i) {
    for (const Slice& slice : own.slices[i]) {
      if (overflowed[static_cast<std::size_t>(slice.segment)] == 0) continue;
      std::fill_n(mean.slice(slice), slice.count, 0.0f);
    }
    options_.update->update(own.range.first + i, own.slices[i], mean, step.step);
  }
  return true;
}

float Round::decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) {
  require_decodable(setup_.layout, setup_.workers, local_worker, segment, out);
  TERNGRAD_REQUIRE((has_run_ && !flags_.is_dropped(stream)) || out.empty(),
                   "[exchange] the last step sent nothing of tensor ", segment);
  const auto group = static_cast<std::size_t>(plan_.group_of(segment));
  return coders_[group]->decode_sent(local_worker, segment, out, stream);
}

void Round::update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                          std::span<const TensorTable> kept, Stream& stream) {
  TERNGRAD_REQUIRE(has_run_, "[exchange] no step has run that could be kept");
  for (const auto& coder : coders_) coder->update_memory(what, encoded, kept, flags_.skip(), stream);
}

}  // namespace terngrad
