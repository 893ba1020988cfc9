#include "compress/comm/mpi/mpi_communicator.h"

#include "kernels/runtime/errors.h"

#ifdef TERNGRAD_WITH_MPI

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "compress/comm/mpi/message_chunks.h"
#include "compress/comm/mpi/mpi_group.h"
#include "compress/comm/mpi/mpi_mailbox.h"
#include "compress/comm/mpi/mpi_operation.h"
#include "compress/comm/watchdog.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad {
namespace {

template <class T>
std::span<const std::uint8_t> bytes_of(std::span<T> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

template <class T>
std::span<std::uint8_t> writable_bytes_of(std::span<T> values) {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

void require_timeout(double seconds) {
  // With a smaller timeout, PeerLiveness would take the pauses between polls for absence.
  TERNGRAD_REQUIRE(seconds >= 0.01, "[mpi] timeout_seconds must be at least 0.01, got ", seconds);
}

std::uint16_t add_bfloat16(std::uint16_t a, std::uint16_t b) {
  return to_bfloat16(from_bfloat16(a) + from_bfloat16(b));
}
std::uint16_t add_float16(std::uint16_t a, std::uint16_t b) { return to_float16(from_float16(a) + from_float16(b)); }

/// An addition that MPI lacks, as a user-defined operation.
template <std::uint16_t (*add)(std::uint16_t, std::uint16_t)>
void add_elements(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* const from = static_cast<const std::uint16_t*>(in);
  auto* const to = static_cast<std::uint16_t*>(in_out);
  for (int i = 0; i < *count; ++i) to[i] = add(from[i], to[i]);
}

/// Owns an MPI operation.
class MpiSum {
 public:
  explicit MpiSum(MPI_User_function* function) { MPI_Op_create(function, /*commute=*/1, &operation_); }
  MpiSum(const MpiSum&) = delete;
  MpiSum& operator=(const MpiSum&) = delete;
  ~MpiSum() { MPI_Op_free(&operation_); }
  MPI_Op get() const { return operation_; }

 private:
  MPI_Op operation_ = MPI_OP_NULL;
};

/// Keeps parcels that are being sent: if the operation fails, it takes over their storage, and the caller's parcels are
/// left empty.
class ParcelKeepAlive {
 public:
  /// Must be destroyed before the operation.
  ParcelKeepAlive(MpiOperation& operation, std::span<Parcels> parcels)
      : parcels_(parcels),
        kept_(std::make_shared<std::vector<Parcels>>(parcels.size())),
        exceptions_before_(std::uncaught_exceptions()) {
    operation.keep_alive(kept_);
  }
  ParcelKeepAlive(const ParcelKeepAlive&) = delete;
  ParcelKeepAlive& operator=(const ParcelKeepAlive&) = delete;
  ~ParcelKeepAlive() {
    if (std::uncaught_exceptions() > exceptions_before_) std::ranges::move(parcels_, kept_->begin());
  }

 private:
  std::span<Parcels> parcels_;
  std::shared_ptr<std::vector<Parcels>> kept_;
  int exceptions_before_;
};

class Mpi final : public MpiCommunicator {
 public:
  /// All ranks, with a communicator of their own, so that its messages are separate from others and its errors are
  /// returned instead of ending the process.
  explicit Mpi(const MpiOptions& options)
      : Mpi(options, [](MPI_Comm* made) { return MPI_Comm_dup(MPI_COMM_WORLD, made); }) {}
  /// @param make  creates the MPI communicator
  template <class Make>
  Mpi(const MpiOptions& options, const Make& make) {
    group_.timeout_seconds = options.timeout_seconds;
    group_.chunk_bytes = options.chunk_bytes;
    group_.require_success(make(&group_.communicator), "start");
    MPI_Comm_set_errhandler(group_.communicator, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group_.communicator, &group_.rank);
    MPI_Comm_size(group_.communicator, &group_.size);
    find_hosts();
    find_launch_ranks();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  ~Mpi() override {
    // With pending messages this would wait for peers that may never come.
    if (!group_.is_broken) MPI_Comm_free(&group_.communicator);
  }

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  const std::vector<std::string>& hosts() const override { return group_.hosts; }
  int local_size() const override { return static_cast<int>(std::ranges::count(group_.hosts, own_host())); }
  int local_rank() const override {
    return static_cast<int>(std::count(group_.hosts.begin(), group_.hosts.begin() + group_.rank, own_host()));
  }

  std::unique_ptr<MpiCommunicator> split_mpi(int part) override {
    const MpiOptions options{.timeout_seconds = group_.timeout_seconds, .chunk_bytes = group_.chunk_bytes};
    return std::make_unique<Mpi>(
        options, [&](MPI_Comm* made) { return MPI_Comm_split(group_.communicator, part, group_.rank, made); });
  }

  std::unique_ptr<Mailbox> make_mailbox() override {
    MpiGroup group;
    group.rank = group_.rank;
    group.size = group_.size;
    group.hosts = group_.hosts;
    group.launch_ranks = group_.launch_ranks;
    group.timeout_seconds = group_.timeout_seconds;
    group.chunk_bytes = group_.chunk_bytes;
    group_.require_success(MPI_Comm_dup(group_.communicator, &group.communicator), "start");
    MPI_Comm_set_errhandler(group.communicator, MPI_ERRORS_RETURN);
    return make_mpi_mailbox(std::move(group));
  }

  bool next_rank_has_come() override {
    int found = 0;
    const int next = (group_.rank + 1) % group_.size;
    group_.require_success(MPI_Iprobe(next, kMpiAnnouncementTag, group_.communicator, &found, MPI_STATUS_IGNORE),
                           "probe");
    return found != 0;
  }

  void send_control(std::uint64_t word) override { group_.send_note(word_, word, kMpiControlTag, "send_control"); }
  std::optional<std::uint64_t> poll_control() override {
    group_.read_notes(kMpiControlTag, "poll_control", [this](int, std::uint64_t word) { heard_ = word; });
    return heard_;
  }

  void send_heartbeat() override { group_.send_heartbeat(); }
  void while_waiting(const std::function<void()>& also) override { group_.while_waiting = also; }

  void set_timeout(double seconds) override {
    require_timeout(seconds);
    group_.timeout_seconds = seconds;
  }

  void all_gather(Parcels& mine, Parcels& all) override {
    MpiOperation operation(group_, MpiOperationKind::kAllGather);
    const ParcelKeepAlive keep_alive(operation, {&mine, 1});
    share(operation, mine.sizes(), mine.storage());
    take(operation, mine, all);
  }

  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override {
    TERNGRAD_REQUIRE(outgoing.size() == static_cast<std::size_t>(group_.size),
                     "[all_to_all] one list of parcels for each of ", group_.size, " ranks, got ", outgoing.size());
    MpiOperation operation(group_, MpiOperationKind::kAllToAll);
    const ParcelKeepAlive keep_alive(operation, outgoing);
    for_each_peer([&](int peer) {
      const Parcels& parcels = outgoing[static_cast<std::size_t>(peer)];
      operation.send(peer, parcels.sizes(), parcels.storage());
    });
    operation.announce({}, {}, /*holds_all=*/true);
    operation.await_heads([](int) { return true; });
    take(operation, outgoing[static_cast<std::size_t>(group_.rank)], incoming);
  }

  void all_reduce_sum(std::span<std::uint64_t> values) override {
    reduce(MpiOperationKind::kSum, values, [](std::uint64_t a, std::uint64_t b) { return a + b; });
  }
  void all_reduce_max(std::span<std::uint32_t> values) override {
    reduce(MpiOperationKind::kMax, values, [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  }

  void broadcast(std::span<std::uint8_t> values, int root) override {
    TERNGRAD_REQUIRE(root >= 0 && root < group_.size, "[broadcast] root ", root, " is not in a group of ", group_.size);
    MpiOperation operation(group_, MpiOperationKind::kBroadcast);
    const bool is_root = group_.rank == root;
    const bool fits = MpiOperation::fits({}, values);
    if (is_root && !fits) for_each_peer([&](int peer) { operation.send(peer, {}, shard_of(peer, values)); });
    operation.announce({}, values, /*holds_all=*/is_root && fits, root);
    for_each_peer([&](int peer) { operation.require_bytes(peer, values.size()); });
    operation.await_heads([&](int peer) { return peer == root && !fits; });
    if (!is_root) operation.receive(root, fits ? values : shard_of(group_.rank, values));
    operation.finish();
    if (!fits) gather_shards(MpiOperationKind::kBroadcast, values, root);
  }

  void barrier() override {
    MpiOperation operation(group_, MpiOperationKind::kBarrier);
    operation.announce({}, {}, /*holds_all=*/true);
    operation.finish();
  }

  void vendor_sum(const FloatSpan& values) override {
    // MPI_Allreduce has no timeout: the barrier finds ranks that do not arrive, and the watchdog ranks lost later.
    barrier();
    if (watchdog_ == nullptr) {
      watchdog_ = std::make_unique<Watchdog>(end_process("[mpi] " + group_.name_of(group_.rank)));
    }
    const bool is_float32 = values.type == ElementType::kFloat32;
    const MPI_Op sum = is_float32 ? MPI_SUM : values.type == ElementType::kBfloat16 ? bfloat16_.get() : float16_.get();
    constexpr std::int64_t kMaxCount = std::int64_t{1} << 30;  // MPI counts in int
    for (std::int64_t first = 0; first < values.count; first += kMaxCount) {
      void* const part = element_at(values.values, values.type, first);
      const auto count = static_cast<int>(std::min(kMaxCount, values.count - first));
      watchdog_->watch(
          group_.timeout_seconds,
          "MPI_Allreduce has not ended in " + text_of(group_.timeout_seconds) + "; a rank that took part is silent",
          [&] {
            group_.require_success(MPI_Allreduce(MPI_IN_PLACE, part, count, is_float32 ? MPI_FLOAT : MPI_UINT16_T, sum,
                                                 group_.communicator),
                                   "MPI_Allreduce");
          });
    }
  }

 private:
  static std::string text_of(double seconds) {
    std::ostringstream text;
    text << seconds << " seconds";
    return text.str();
  }
  const std::string& own_host() const { return group_.hosts[static_cast<std::size_t>(group_.rank)]; }

  void find_hosts() {
    std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
    int length = 0;
    MPI_Get_processor_name(own.data(), &length);
    std::vector<char> all(own.size() * static_cast<std::size_t>(group_.size));
    group_.hosts.resize(static_cast<std::size_t>(group_.size), own.data());
    group_.require_success(MPI_Allgather(own.data(), static_cast<int>(own.size()), MPI_CHAR, all.data(),
                                         static_cast<int>(own.size()), MPI_CHAR, group_.communicator),
                           "start");
    for (std::size_t peer = 0; peer < group_.hosts.size(); ++peer) {
      group_.hosts[peer] = all.data() + peer * own.size();
    }
  }

  void find_launch_ranks() {
    std::vector<int> ranks(static_cast<std::size_t>(group_.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    group_.launch_ranks.resize(ranks.size());
    MPI_Group own = MPI_GROUP_NULL;
    MPI_Group launch = MPI_GROUP_NULL;
    MPI_Comm_group(group_.communicator, &own);
    MPI_Comm_group(MPI_COMM_WORLD, &launch);
    const int result = MPI_Group_translate_ranks(own, group_.size, ranks.data(), launch, group_.launch_ranks.data());
    MPI_Group_free(&own);
    MPI_Group_free(&launch);
    group_.require_success(result, "start");
  }

  /// Calls body(peer) for the next rank, and so on cyclically, so that not all ranks begin with the same peer.
  template <class Body>
  void for_each_peer(const Body& body) const {
    for (int i = 1; i < group_.size; ++i) body((group_.rank + i) % group_.size);
  }

  /// Sends the same data to all. @param owner  rank that has everyone's data; it gets only data that fit into
  /// announcements
  void share(MpiOperation& operation, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data,
             int owner = -1) const {
    const bool fits = MpiOperation::fits(sizes, data);
    for_each_peer([&](int peer) {
      if (!fits && peer != owner) operation.send(peer, sizes, data);
    });
    operation.announce(sizes, data, fits);
    operation.await_heads([&](int peer) { return group_.rank != owner && !operation.holds_all(peer); });
  }

  /// Receives everyone's parcels, in order of ranks, including this rank's own.
  void take(MpiOperation& operation, Parcels& own, Parcels& all) {
    const auto received = std::make_shared<Parcels>(std::move(kept_));
    operation.keep_alive(received);
    Parcels& result = *received;
    result.clear();
    std::vector<std::size_t> begins;
    std::vector<std::size_t> lengths;
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank) operation.require_parcels(peer);
      const std::span<const std::uint64_t> sizes = peer == group_.rank ? own.sizes() : operation.sizes(peer);
      begins.push_back(result.storage().size());
      lengths.push_back(result.extend(sizes).size());
    }
    // From here on the storage is not reallocated.
    const std::span<std::uint8_t> storage = writable(result);
    for (int peer = 0; peer < group_.size; ++peer) {
      const auto place = static_cast<std::size_t>(peer);
      const std::span<std::uint8_t> theirs = storage.subspan(begins[place], lengths[place]);
      if (peer != group_.rank) {
        operation.receive(peer, theirs);
      } else if (!theirs.empty()) {
        std::memcpy(theirs.data(), own.storage().data(), theirs.size());
      }
    }
    operation.finish();
    kept_ = std::move(all);
    all = std::move(result);
  }

  static std::span<std::uint8_t> writable(Parcels& parcels) {
    const std::span<const std::uint8_t> storage = parcels.storage();
    return {const_cast<std::uint8_t*>(storage.data()), storage.size()};
  }

  /// The contiguous shard of values that belongs to a rank.
  template <class T>
  std::span<T> shard_of(int peer, std::span<T> values) const {
    const auto begin = [&](int r) {
      return values.size() / static_cast<std::size_t>(group_.size) * static_cast<std::size_t>(r) +
             std::min(values.size() % static_cast<std::size_t>(group_.size), static_cast<std::size_t>(r));
    };
    return values.subspan(begin(peer), begin(peer + 1) - begin(peer));
  }

  /// All-gathers each rank's shard in place. @param owner  rank that already has all shards
  template <class T>
  void gather_shards(MpiOperationKind kind, std::span<T> values, int owner = -1) {
    MpiOperation operation(group_, kind);
    share(operation, {}, bytes_of(shard_of(group_.rank, values)), owner);
    for_each_peer([&](int peer) {
      if (group_.rank != owner) operation.receive(peer, writable_bytes_of(shard_of(peer, values)));
    });
    operation.finish();
  }

  /// All-reduce: short values are gathered whole; of long ones each rank reduces its shard, then shards are gathered.
  template <class T, class Combine>
  void reduce(MpiOperationKind kind, std::span<T> values, const Combine& combine) {
    const bool is_small = values.size_bytes() <= kSmallBytes;
    const std::span<T> own = is_small ? values : shard_of(group_.rank, values);
    MpiOperation operation(group_, kind);
    if (!is_small) for_each_peer([&](int peer) { operation.send(peer, {}, bytes_of(shard_of(peer, values))); });
    operation.announce({}, bytes_of(values), /*holds_all=*/is_small);
    for_each_peer([&](int peer) { operation.require_bytes(peer, values.size_bytes()); });
    operation.await_heads([&](int) { return !is_small; });
    const auto theirs = std::make_shared<std::vector<std::vector<T>>>(static_cast<std::size_t>(group_.size));
    operation.keep_alive(theirs);
    for_each_peer([&](int peer) {
      std::vector<T>& part = (*theirs)[static_cast<std::size_t>(peer)];
      part.resize(own.size());
      operation.receive(peer, writable_bytes_of(std::span<T>(part)));
    });
    operation.finish();
    for_each_peer([&](int peer) {
      std::ranges::transform(own, (*theirs)[static_cast<std::size_t>(peer)], own.begin(), combine);
    });
    if (!is_small) gather_shards(kind, values);
  }

  // Up to this size one round of messages is faster than two rounds of smaller ones.
  static constexpr std::size_t kSmallBytes = 2048;

  MpiGroup group_;
  Parcels kept_;  // storage of earlier received parcels, for reuse
  MpiNote word_;  // last one sent; must stay valid until MPI has taken it
  std::optional<std::uint64_t> heard_;
  MpiSum bfloat16_{add_elements<add_bfloat16>};
  MpiSum float16_{add_elements<add_float16>};
  std::unique_ptr<Watchdog> watchdog_;  // created by the first vendor_sum
};

}  // namespace

std::unique_ptr<MpiCommunicator> make_mpi_communicator(const MpiOptions& options) {
  require_timeout(options.timeout_seconds);
  TERNGRAD_REQUIRE(options.chunk_bytes >= 1 && options.chunk_bytes <= kMaxPieceBytes,
                   "[mpi] chunk_bytes must be from 1 to 2^30, got ", options.chunk_bytes);
  return std::make_unique<Mpi>(options);
}

}  // namespace terngrad

#else

namespace terngrad {

std::unique_ptr<MpiCommunicator> make_mpi_communicator(const MpiOptions&) {
  throw NotSupported("[mpi] this build has no MPI: install libopenmpi-dev and configure with -DTERNGRAD_MPI=ON");
}

}  // namespace terngrad

#endif
