#include "trainers/loop/served_parameters.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/transform.h"

namespace terngrad {
namespace {

std::int64_t num_elements(std::span<const Slice> slices) {
  std::int64_t sum = 0;
  for (const Slice& slice : slices) sum += slice.count;
  return sum;
}

/// Calls visit(offset in the flat buffer, offset in the compact buffer, count) for each slice.
template <class Visit>
void for_each_run(const Layout& layout, std::span<const Slice> slices, const Visit& visit) {
  std::size_t compact = 0;
  for (const Slice& slice : slices) {
    const auto count = static_cast<std::size_t>(slice.count);
    visit(static_cast<std::size_t>(layout.segment(slice.segment).offset + slice.first), compact, count);
    compact += count;
  }
}

void cut(const Layout& layout, std::span<const Slice> slices, std::span<const float> flat, std::span<float> compact) {
  for_each_run(layout, slices, [&](std::size_t place, std::size_t at, std::size_t count) {
    std::ranges::copy(flat.subspan(place, count), compact.subspan(at).begin());
  });
}

void paste(const Layout& layout, std::span<const Slice> slices, std::span<const float> compact, std::span<float> flat) {
  for_each_run(layout, slices, [&](std::size_t place, std::size_t at, std::size_t count) {
    std::ranges::copy(compact.subspan(at, count), flat.subspan(place).begin());
  });
}

}  // namespace

ServedParameters::ServedParameters(const Layout& layout, const WorkerGroup& workers,
                                   const ServedParametersOptions& options)
    : layout_(layout),
      workers_(workers),
      options_(options),
      own_(shards_of(workers, ShardOwners::kServers, workers.communicator->rank())),
      all_shards_(terngrad::shards(layout, num_shards(workers, ShardOwners::kServers))),
      unrounded_(options.is_rounded ? zeros<float>(layout.flat_elements()) : Buffer<float>()),
      stream_(Device::cpu(), options.num_threads) {
  for (std::size_t shard = own_.first; shard < own_.end(); ++shard) {
    const std::int64_t count = num_elements(all_shards_[shard]);
    shards_.push_back({all_shards_[shard], Buffer<float>(count), Buffer<float>(count), options.make_optimizer(count)});
  }
}

std::vector<std::span<float>> ServedParameters::whole_buffers(Optimizer& optimizer) {
  std::vector<std::span<float>> buffers;
  if (options_.is_rounded) buffers.push_back(unrounded_.span());
  for (const Optimizer::Slot& slot : optimizer.slots()) buffers.push_back(slot.values);
  return buffers;
}

std::vector<std::span<float>> ServedParameters::buffers_of(Shard& shard) const {
  std::vector<std::span<float>> buffers;
  if (options_.is_rounded) buffers.push_back(shard.parameters.span());
  for (const Optimizer::Slot& slot : shard.optimizer->slots()) buffers.push_back(slot.values);
  return buffers;
}

void ServedParameters::begin(std::span<const float> parameters, Optimizer& optimizer, bool is_new) {
  if (is_new && options_.is_rounded) std::ranges::copy(parameters, unrounded_.span().begin());
  const std::vector<std::span<float>> whole = whole_buffers(optimizer);
  for (Shard& shard : shards_) {
    cut(layout_, shard.slices, parameters, shard.parameters.span());
    const std::vector<std::span<float>> own = buffers_of(shard);
    for (std::size_t i = 0; i < own.size(); ++i) cut(layout_, shard.slices, whole[i], own[i]);
    shard.optimizer->restore_state(optimizer.state());
  }
}

void ServedParameters::update(std::size_t shard, std::span<const Slice> slices, const TensorTable& values,
                              std::uint64_t step) {
  TERNGRAD_REQUIRE(shard >= own_.first && shard < own_.end(), "[served] shard ", shard, " is another rank's");
  Shard& own = shards_[shard - own_.first];
  TERNGRAD_REQUIRE(std::ranges::equal(slices, own.slices), "[served] shard ", shard, " is cut in another way");
  std::size_t at = 0;
  for (const Slice& slice : slices) {
    std::copy_n(values.slice(slice), slice.count, own.gradient.data() + at);
    at += static_cast<std::size_t>(slice.count);
  }
  if (options_.mean_factor != 1) scale(own.gradient.span(), options_.mean_factor, stream_);
  const auto rate = static_cast<float>(options_.schedule.rate(static_cast<std::int64_t>(step)));
  own.optimizer->apply(own.parameters.span(), own.gradient.span(), rate, stream_);
  at = 0;
  for (const Slice& slice : slices) {
    std::copy_n(own.parameters.data() + at, slice.count, values.slice(slice));
    at += static_cast<std::size_t>(slice.count);
  }
}

void ServedParameters::gather(Optimizer& optimizer) {
  Communicator& communicator = *workers_.communicator;
  std::vector<Parcels> outgoing(static_cast<std::size_t>(communicator.size()));
  for (Shard& shard : shards_) {
    for (const std::span<float> buffer : buffers_of(shard)) {
      outgoing[0].append({reinterpret_cast<const std::uint8_t*>(buffer.data()), buffer.size_bytes()});
    }
  }
  Parcels incoming;
  communicator.all_to_all(outgoing, incoming);
  if (communicator.rank() != 0) return;
  const std::vector<std::span<float>> whole = whole_buffers(optimizer);
  const std::size_t expected = all_shards_.size() * whole.size();
  if (incoming.count() != expected) {
    TERNGRAD_THROW(CommunicationError, "[served] ", incoming.count(), " buffers came from the servers, expected ",
                   expected);
  }
  for (std::size_t i = 0; i < expected; ++i) {
    const std::vector<Slice>& slices = all_shards_[i / whole.size()];
    const std::span<const std::uint8_t> parcel = incoming.parcel(i);
    const auto count = static_cast<std::size_t>(num_elements(slices));
    if (parcel.size() != count * sizeof(float)) {
      TERNGRAD_THROW(CommunicationError, "[served] a buffer of shard ", i / whole.size(), " has ", parcel.size(),
                     " bytes, expected ", count * sizeof(float));
    }
    paste(layout_, slices, {reinterpret_cast<const float*>(parcel.data()), count}, whole[i % whole.size()]);
  }
}

std::vector<Optimizer::Slot> ServedParameters::own_slots() {
  if (!options_.is_rounded) return {};
  return {{"served", unrounded_.span()}};
}

}  // namespace terngrad
