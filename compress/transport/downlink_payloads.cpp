#include "compress/transport/downlink_payloads.h"

#include <algorithm>

#include "compress/route/codec_shards.h"
#include "compress/route/wire_bytes.h"
#include "kernels/runtime/copy.h"

namespace terngrad {
namespace {

std::vector<std::vector<Slice>> shards_of(const Layout& layout, const CodecPlan& plan, bool travels,
                                          const DownlinkPayloads::Options& options) {
  if (!travels) return {whole_segments(layout)};
  const bool have_workers = options.owners == ShardOwners::kWorkers;
  return shards_by_codec(layout, plan, have_workers ? options.ranks[0].num_workers : 1);
}

DownlinkPayloads::Options with_forms(DownlinkPayloads::Options options, const DownlinkForms& forms) {
  options.travels = forms.travels();
  options.bytes_of = [&forms](const Slice& slice) {
    const bool has_payload = forms.travels() || forms.form(slice.segment) == MeanForm::kCodes;
    return has_payload ? forms.max_bytes(slice) : 0;
  };
  return options;
}

/// Rounds up to the alignment of payloads: four float32, which kernels load and store at once.
std::int64_t whole_places(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

DownlinkPayloads::DownlinkPayloads(const std::vector<std::vector<Slice>>& shards, const Options& options,
                                   const Device& device)
    : own_(options.ranks[static_cast<std::size_t>(options.rank)]), owners_(options.owners), travels_(options.travels) {
  const std::vector<ShardRange> owned = shards_of_ranks(options.ranks, owners_);
  own_shards_ = owned[static_cast<std::size_t>(options.rank)];
  add_parts(shards, options.bytes_of);
  const std::vector<ByteRange> ranges = travels_ ? ranges_of(owned) : std::vector<ByteRange>{{0, shard_bytes_[0]}};
  const std::int64_t bytes = ranges.back().offset + ranges.back().count;
  payloads_ = Buffer<std::uint64_t>(bytes / static_cast<std::int64_t>(sizeof(std::uint64_t)), device);
  Stream stream(device);
  fill_zero(payloads_.span(), stream);  // padding between payloads is sent with them
  stream.synchronize();
  gather_ = {reinterpret_cast<std::uint8_t*>(payloads_.data()), ranges};
  std::size_t rank = 0;
  std::int64_t offset = 0;
  for (MeanPart& part : parts_) {
    // Shards are in order of ranks.
    while (travels_ && static_cast<std::size_t>(part.shard) >= owned[rank].end()) {
      offset = ranges[++rank].offset;
    }
    part.outgoing = gather_.buffer + offset;
    part.incoming = part.outgoing;
    offset += whole_places(part.bytes);
  }
}

DownlinkPayloads::DownlinkPayloads(const Layout& layout, const CodecPlan& plan, const DownlinkForms& forms,
                                   const Options& options, const Device& device)
    : DownlinkPayloads(shards_of(layout, plan, forms.travels(), options), with_forms(options, forms), device) {}

void DownlinkPayloads::add_parts(const std::vector<std::vector<Slice>>& shards,
                                 const std::function<std::int64_t(const Slice&)>& bytes_of) {
  for (const std::vector<Slice>& slices : shards) {
    const auto shard = static_cast<int>(shard_bytes_.size());
    shard_bytes_.push_back(0);
    for (const Slice& slice : slices) {
      const std::int64_t bytes = slice.count == 0 ? 0 : bytes_of(slice);
      if (bytes == 0) continue;
      parts_.push_back({.slice = slice, .shard = shard, .is_own = is_own(shard), .bytes = bytes});
      shard_bytes_.back() += whole_places(bytes);
    }
  }
}

std::vector<ByteRange> DownlinkPayloads::ranges_of(std::span<const ShardRange> ranks) const {
  std::vector<ByteRange> ranges;
  bool equal = true;
  std::int64_t most = 0;
  for (const ShardRange& shards : ranks) {
    ByteRange range{ranges.empty() ? 0 : ranges.back().offset + ranges.back().count, 0};
    for (std::size_t shard = shards.first; shard < shards.end(); ++shard) range.count += shard_bytes_[shard];
    ranges.push_back(range);
    most = std::max(most, range.count);
    equal = equal && shards.count == own_shards_.count;
  }
  if (!equal) return ranges;
  // The sizes of ranks with equally many shards differ by a few chunks. Ranges of equal size are gathered by a single
  // operation, others by a broadcast from each rank.
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    ranges[rank] = {static_cast<std::int64_t>(rank) * most, most};
  }
  return ranges;
}

void DownlinkPayloads::gather(DeviceCommunicator& communicator, Stream& stream) {
  if (travels_) communicator.all_gather({&gather_, 1}, stream);
}

void DownlinkPayloads::add_bytes(ExchangeBytes& report) const {
  if (!travels_) return;
  const WireNodes nodes(own_, 0, owners_);
  for (std::size_t shard = 0; shard < shard_bytes_.size(); ++shard) {
    nodes.add_shard(report, &ExchangeBytes::mean, own_shards_, shard, shard_bytes_[shard]);
  }
}

}  // namespace terngrad
