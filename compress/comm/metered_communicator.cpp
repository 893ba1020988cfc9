#include "compress/comm/metered_communicator.h"

#include "compress/comm/all_reduce_bytes.h"

namespace terngrad {
namespace {

std::int64_t bytes_in(const Parcels& parcels) { return static_cast<std::int64_t>(parcels.storage().size()); }

}  // namespace

void MeteredCommunicator::all_gather(Parcels& mine, Parcels& all) {
  const std::int64_t own = bytes_in(mine);
  inner_->all_gather(mine, all);
  sent_ += own * (size() - 1);
  received_ += bytes_in(all) - own;
}

void MeteredCommunicator::all_to_all(std::span<Parcels> outgoing, Parcels& incoming) {
  std::int64_t total = 0;
  std::int64_t own = 0;
  for (std::size_t peer = 0; peer < outgoing.size(); ++peer) {
    total += bytes_in(outgoing[peer]);
    if (static_cast<int>(peer) == rank()) own = bytes_in(outgoing[peer]);
  }
  inner_->all_to_all(outgoing, incoming);
  sent_ += total - own;
  received_ += bytes_in(incoming) - own;
}

void MeteredCommunicator::count_reduction(std::size_t num_bytes) {
  const std::int64_t bytes = all_reduce_bytes(static_cast<std::int64_t>(num_bytes), size());
  sent_ += bytes;
  received_ += bytes;
}

void MeteredCommunicator::all_reduce_sum(std::span<std::uint64_t> values) {
  inner_->all_reduce_sum(values);
  count_reduction(values.size_bytes());
}

void MeteredCommunicator::all_reduce_max(std::span<std::uint32_t> values) {
  inner_->all_reduce_max(values);
  count_reduction(values.size_bytes());
}

void MeteredCommunicator::vendor_sum(const FloatSpan& values) {
  inner_->vendor_sum(values);
  count_reduction(static_cast<std::size_t>(values.count) * element_bytes(values.type));
}

void MeteredCommunicator::broadcast(std::span<std::uint8_t> values, int root) {
  inner_->broadcast(values, root);
  const auto bytes = static_cast<std::int64_t>(values.size());
  if (rank() == root) {
    sent_ += bytes * (size() - 1);
  } else {
    received_ += bytes;
  }
}

}  // namespace terngrad
