#include "compress/exchange/device/downlink_payloads.h"

#include <algorithm>

#include "compress/exchange/wire_bytes.h"
#include "kernels/runtime/copy.h"

namespace terngrad {
namespace {

/// Bytes with those up to the next place: four elements of float32, which kernels load and store at once.
std::int64_t whole_places(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

DeviceMeanShares::DeviceMeanShares(const std::vector<std::vector<Slice>>& shares, const Options& options,
                                   const Device& device)
    : own_(options.ranks[static_cast<std::size_t>(options.rank)]), owners_(options.owners), travels_(options.travels) {
  const std::vector<ShareRange> owned = shares_of_ranks(options.ranks, owners_);
  own_shares_ = owned[static_cast<std::size_t>(options.rank)];
  add_parts(shares, options.bytes_of);
  const std::vector<ByteRange> ranges = travels_ ? ranges_of(owned) : std::vector<ByteRange>{{0, share_bytes_[0]}};
  const std::int64_t bytes = ranges.back().offset + ranges.back().count;
  payloads_ = Buffer<std::uint64_t>(bytes / static_cast<std::int64_t>(sizeof(std::uint64_t)), device);
  Stream stream(device);
  fill_zero(payloads_.span(), stream);  // what lies between payloads travels with them
  stream.synchronize();
  gather_ = {reinterpret_cast<std::uint8_t*>(payloads_.data()), ranges};
  std::size_t rank = 0;
  std::int64_t offset = 0;
  for (MeanPart& part : parts_) {
    // Shares are in order of ranks.
    while (travels_ && static_cast<std::size_t>(part.share) >= owned[rank].end()) {
      offset = ranges[++rank].offset;
    }
    part.payload = gather_.buffer + offset;
    offset += whole_places(part.bytes);
  }
}

void DeviceMeanShares::add_parts(const std::vector<std::vector<Slice>>& shares,
                                 const std::function<std::int64_t(const Slice&)>& bytes_of) {
  for (const std::vector<Slice>& slices : shares) {
    const auto share = static_cast<int>(share_bytes_.size());
    share_bytes_.push_back(0);
    for (const Slice& slice : slices) {
      const std::int64_t bytes = slice.count == 0 ? 0 : bytes_of(slice);
      if (bytes == 0) continue;
      parts_.push_back({slice, share, is_own(share), bytes});
      share_bytes_.back() += whole_places(bytes);
    }
  }
}

std::vector<ByteRange> DeviceMeanShares::ranges_of(std::span<const ShareRange> ranks) const {
  std::vector<ByteRange> ranges;
  bool equal = true;
  std::int64_t most = 0;
  for (const ShareRange& shares : ranks) {
    ByteRange range{ranges.empty() ? 0 : ranges.back().offset + ranges.back().count, 0};
    for (std::size_t share = shares.first; share < shares.end(); ++share) range.count += share_bytes_[share];
    ranges.push_back(range);
    most = std::max(most, range.count);
    equal = equal && shares.count == own_shares_.count;
  }
  if (!equal) return ranges;
  // Parts of ranks with equally many shares differ by a few chunks. Equal ones are gathered by a single operation, all
  // others by a broadcast from each rank.
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    ranges[rank] = {static_cast<std::int64_t>(rank) * most, most};
  }
  return ranges;
}

void DeviceMeanShares::gather(DeviceCommunicator& communicator, Stream& stream) {
  if (travels_) communicator.all_gather({&gather_, 1}, stream);
}

void DeviceMeanShares::add_bytes(ExchangeBytes& report) const {
  if (!travels_) return;
  const WireNodes nodes(own_, 0, owners_);
  for (std::size_t share = 0; share < share_bytes_.size(); ++share) {
    nodes.add_share(report, &ExchangeBytes::mean, own_shares_, share, share_bytes_[share]);
  }
}

}  // namespace terngrad
