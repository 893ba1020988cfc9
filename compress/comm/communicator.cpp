#include "compress/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(Parcels& mine, Parcels& all) override { std::swap(mine, all); }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override {
    TERNGRAD_REQUIRE(outgoing.size() == 1, "[all_to_all] one list of parcels for each of 1 rank, got ",
                     outgoing.size());
    std::swap(outgoing[0], incoming);
  }
  void all_reduce_sum(std::span<std::uint64_t>) override {}
  void all_reduce_max(std::span<std::uint32_t>) override {}
  void broadcast(std::span<std::uint8_t>, int root) override {
    TERNGRAD_REQUIRE(root == 0, "[broadcast] root ", root, " is not in a group of 1");
  }
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override { return make_self_communicator(); }
  void vendor_sum(const FloatSpan&) override {}
};

}  // namespace

void Communicator::set_timeout(double seconds) {
  TERNGRAD_REQUIRE(seconds > 0, "[communicator] a limit must be above 0 seconds, got ", seconds);
}

std::unique_ptr<Communicator> Communicator::split(int) {
  throw NotSupported("[communicator] these processes cannot be split into groups");
}

void Communicator::vendor_sum(const FloatSpan&) {
  throw NotSupported("[communicator] these processes are not connected by a library with an all-reduce of its own");
}

void Parcels::clear() {
  offsets_.clear();
  sizes_.clear();
  used_ = 0;
}

void Parcels::reserve(std::size_t words) {
  if (words <= static_cast<std::size_t>(words_.num_elements())) return;
  Buffer<std::uint64_t> larger(static_cast<std::int64_t>(std::max(words, 2 * used_)));
  if (used_ > 0) std::memcpy(larger.data(), words_.data(), used_ * 8);
  words_ = std::move(larger);
}

void Parcels::append(std::span<const std::uint8_t> bytes) {
  const std::span<std::uint8_t> room = append_room(bytes.size());
  if (!bytes.empty()) std::memcpy(room.data(), bytes.data(), bytes.size());
}

std::span<std::uint8_t> Parcels::append_room(std::uint64_t size) {
  const std::span<std::uint8_t> storage = extend({&size, 1});
  if (size > 0) std::memset(storage.data() + storage.size() - 8, 0, 8);  // padding of the last word
  return storage.first(size);
}

std::span<std::uint8_t> Parcels::extend(std::span<const std::uint64_t> sizes) {
  const std::size_t begin = used_;
  std::size_t end = begin;
  for (const std::uint64_t size : sizes) end += (size + 7) / 8;
  // First the operation that may throw.
  reserve(end);
  const std::size_t count = sizes_.size() + sizes.size();
  if (count > sizes_.capacity()) sizes_.reserve(std::max(count, 2 * sizes_.capacity()));
  if (count > offsets_.capacity()) offsets_.reserve(std::max(count, 2 * offsets_.capacity()));
  for (const std::uint64_t size : sizes) {
    offsets_.push_back(used_);
    sizes_.push_back(size);
    used_ += (size + 7) / 8;
  }
  return {reinterpret_cast<std::uint8_t*>(words_.data() + begin), (end - begin) * 8};
}

std::span<const std::uint8_t> Parcels::storage() const {
  return {reinterpret_cast<const std::uint8_t*>(words_.data()), used_ * 8};
}

std::span<const std::uint8_t> Parcels::parcel(std::size_t index) const {
  return {reinterpret_cast<const std::uint8_t*>(words_.data() + offsets_.at(index)), sizes_.at(index)};
}

std::span<std::uint8_t> Parcels::parcel(std::size_t index) {
  return {reinterpret_cast<std::uint8_t*>(words_.data() + offsets_.at(index)), sizes_.at(index)};
}

std::unique_ptr<Communicator> make_self_communicator() { return std::make_unique<SelfCommunicator>(); }

WorkerRange worker_range(int num_workers, int rank, int size) {
  TERNGRAD_REQUIRE(rank >= 0 && rank < size, "[workers] no rank ", rank, " among ", size);
  TERNGRAD_REQUIRE(num_workers >= size, "[workers] ", num_workers, " workers cannot be spread over ", size,
                   " processes: every process needs at least one");
  const auto begin_of = [&](int r) { return static_cast<int>(std::int64_t{num_workers} * r / size); };
  return {num_workers, begin_of(rank), begin_of(rank + 1) - begin_of(rank)};
}

WorkerRange WorkerGroup::range_of(int rank) const {
  const int num_ranks = communicator->size() - num_servers;
  if (rank >= num_ranks && rank < communicator->size()) return {num_workers, num_workers, 0};
  return worker_range(num_workers, rank, num_ranks);
}

WorkerGroup make_worker_group(int num_workers, std::shared_ptr<Communicator> communicator, int num_servers) {
  TERNGRAD_REQUIRE(num_servers >= 0 && num_servers < communicator->size(), "[workers] ", num_servers, " servers of ",
                   communicator->size(), " processes: at least one must have workers");
  WorkerGroup group{{.num_workers = num_workers}, std::move(communicator), num_servers};
  static_cast<WorkerRange&>(group) = group.range_of(group.communicator->rank());
  return group;
}

}  // namespace terngrad
