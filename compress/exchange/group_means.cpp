#include "compress/exchange/group_means.h"

#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/exchange/part_clock.h"
#include "compress/exchange/round.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

CompressedAllReduceOptions uncompressed(const PartContext& context) {
  CompressedAllReduceOptions options;
  options.codecs.codec = "fp32";
  options.seed = context.options.seed;
  options.run_id = context.options.run_id;
  return options;
}

std::span<std::uint8_t> bytes_of(std::span<float> values) {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

GroupMeans::GroupMeans(const Layout& layout, const PartContext& context)
    : layout_(layout),
      members_(context.peers.members),
      unused_flags_(std::make_unique<NonfiniteFlags>(OnNonfinite::kZero, context.stream)),
      packer_(FloatPayload::kFloat32, context.stream.device()) {
  const CompressedAllReduceOptions options = uncompressed(context);
  for (const WorkerGroup& group : members_.groups) {
    ExchangePeers peers(group);
    peers.device = members_.device;
    rounds_.push_back(std::make_unique<Round>(layout_,
                                              CodecPlan(layout_, with_workers(options.codecs, group.num_workers)),
                                              PartContext{.peers = peers,
                                                          .options = options,
                                                          .stream = context.stream,
                                                          .flags = *unused_flags_,
                                                          .shared = context.shared,
                                                          .finds_nonfinite = false},
                                              std::vector<int>()));
    values_.emplace_back(layout_.flat_elements(), context.stream.device());
    means_.emplace_back(layout_, values_.back().data());
  }
  const auto place = [&](const auto& inside) {
    rank_ = inside.rank();
    is_shared_ = inside.size() > 1;
  };
  if (members_.device != nullptr) {
    place(*members_.device);
  } else {
    place(*members_.groups.front().communicator);
  }
  if (is_shared_) travelling_ = Buffer<float>(layout_.num_elements(), context.stream.device());
}

GroupMeans::~GroupMeans() = default;

std::span<const TensorTable> GroupMeans::reduce(std::span<const TensorTable> gradients, const DeviceStep& step,
                                                Stream& stream, PartClock& clock) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const auto count = static_cast<std::size_t>(members_.groups[i].num_local_workers);
    TERNGRAD_REQUIRE(first + count <= gradients.size(), "[groups] got ", gradients.size(),
                     " gradients, fewer than local workers");
    rounds_[i]->run(gradients.subspan(first, count), means_[i], step, stream, clock);
    first += count;
  }
  TERNGRAD_REQUIRE(first == gradients.size(), "[groups] this rank has ", first, " workers, got ", gradients.size(),
                   " gradients");
  return means();
}

void GroupMeans::broadcast(std::span<std::uint8_t> bytes, Stream& stream) {
  if (members_.device != nullptr) return members_.device->broadcast(bytes, 0, stream);
  members_.groups.front().communicator->broadcast(bytes, 0);
}

void GroupMeans::spread(const TensorTable& mean, NonfiniteFlags& flags, Stream& stream, PartClock& clock) {
  if (!is_shared_) return;
  clock.start(stream);
  std::vector<FloatPayloadTask> tasks;
  std::int64_t at = 0;
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    const std::int64_t count = layout_.segment(segment).num_elements;
    float* const own = mean.tensor(segment);
    float* const packed = travelling_.data() + at;
    tasks.push_back({.values = is_first() ? own : packed, .count = count, .payload = is_first() ? packed : own});
    at += count;
  }
  if (is_first()) packer_.run(tasks, stream);
  broadcast(bytes_of(travelling_.span()), stream);
  if (!is_first()) packer_.run(tasks, stream);
  flags.share([&](std::span<std::uint8_t> bytes) { broadcast(bytes, stream); });
  clock.lap(&ExchangeReport::wire_seconds, stream);
}

}  // namespace terngrad
