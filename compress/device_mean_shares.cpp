#include "compress/device_mean_shares.h"

#include <algorithm>

#include "kernels/copy.h"

namespace terngrad {
namespace {

/// Bytes with those up to the next place: four elements of float32, which kernels load and store at once.
std::int64_t whole_places(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

DeviceMeanShares::DeviceMeanShares(const std::vector<std::vector<Slice>>& shares, const Options& options,
                                   const Device& device)
    : own_(options.own), travels_(options.travels) {
  add_parts(shares, options.bytes_of);
  const std::vector<ByteRange> ranges =
      travels_ ? ranges_of(options.ranks) : std::vector<ByteRange>{{0, share_bytes_[0]}};
  const std::int64_t bytes = ranges.back().offset + ranges.back().count;
  payloads_ = Buffer<std::uint64_t>(bytes / static_cast<std::int64_t>(sizeof(std::uint64_t)), device);
  Stream stream(device);
  fill_zero(payloads_.span(), stream);  // what lies between payloads travels with them
  stream.synchronize();
  gather_ = {reinterpret_cast<std::uint8_t*>(payloads_.data()), ranges};
  std::size_t rank = 0;
  std::int64_t offset = 0;
  for (MeanPart& part : parts_) {
    // Shares are numbered like the workers whose rank aggregates them.
    while (travels_ && part.share >= options.ranks[rank].first_local_worker + options.ranks[rank].num_local_workers) {
      offset = ranges[++rank].offset;
    }
    part.payload = gather_.buffer + offset;
    offset += whole_places(part.bytes);
  }
}

bool DeviceMeanShares::is_own(int share) const {
  return !travels_ || (share >= own_.first_local_worker && share < own_.first_local_worker + own_.num_local_workers);
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

std::vector<ByteRange> DeviceMeanShares::ranges_of(std::span<const WorkerRange> ranks) const {
  std::vector<ByteRange> ranges;
  bool equal = true;
  std::int64_t most = 0;
  for (const WorkerRange& workers : ranks) {
    ByteRange range{ranges.empty() ? 0 : ranges.back().offset + ranges.back().count, 0};
    const int end = workers.first_local_worker + workers.num_local_workers;
    for (int share = workers.first_local_worker; share < end; ++share) {
      range.count += share_bytes_[static_cast<std::size_t>(share)];
    }
    ranges.push_back(range);
    most = std::max(most, range.count);
    equal = equal && workers.num_local_workers == own_.num_local_workers;
  }
  if (!equal) return ranges;
  // Parts of ranks with equally many workers differ by a few chunks. Equal ones are gathered by a single operation, all
  // others by a broadcast from each rank.
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    ranges[rank] = {static_cast<std::int64_t>(rank) * most, most};
  }
  return ranges;
}

void DeviceMeanShares::gather(DeviceCommunicator& communicator, Stream& stream) {
  if (travels_) communicator.all_gather({&gather_, 1}, stream);
}

LegBytes DeviceMeanShares::bytes() const {
  LegBytes bytes;
  if (!travels_ || own_.num_workers == 1) return bytes;
  std::int64_t all = 0;
  for (int share = 0; share < own_.num_workers; ++share) {
    const std::int64_t of_share = share_bytes_[static_cast<std::size_t>(share)];
    all += of_share;
    if (is_own(share)) bytes.sent += of_share;
  }
  bytes.received = all * own_.num_local_workers - bytes.sent;
  return bytes;
}

}  // namespace terngrad
