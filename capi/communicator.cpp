#include "capi/communicator.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "capi/status.h"
#include "compress/comm/packed_parcels.h"

using namespace terngrad;
using namespace terngrad::capi;

struct tg_incoming {
  std::size_t num_expected;
  struct Received {
    std::unique_ptr<std::uint64_t[]> words;
    std::size_t bytes;
  };
  std::vector<Received> messages = {};
};

namespace {

/// Communicator over the caller's callbacks. Packs a rank's parcels into one message.
class CustomCommunicator final : public Communicator {
 public:
  explicit CustomCommunicator(const tg_communicator_ops& ops) : ops_(ops) {}
  ~CustomCommunicator() override {
    if (ops_.release != nullptr) ops_.release(ops_.self);
  }
  CustomCommunicator(const CustomCommunicator&) = delete;
  CustomCommunicator& operator=(const CustomCommunicator&) = delete;

  int rank() const override { return ops_.rank; }
  int size() const override { return ops_.size; }

  void all_gather(Parcels& mine, Parcels& all) override {
    const std::vector<std::uint64_t> message = pack_parcels(mine);
    tg_incoming incoming{num_ranks()};
    require_done("all_gather", ops_.all_gather(ops_.self, data_of(message), bytes_of(message), &incoming));
    unpack("all_gather", incoming, all);
  }

  void all_to_all(std::span<Parcels> outgoing, Parcels& received) override {
    std::vector<std::vector<std::uint64_t>> messages;
    std::vector<const std::uint8_t*> data;
    std::vector<std::int64_t> bytes;
    for (const Parcels& parcels : outgoing) {
      const std::vector<std::uint64_t>& message = messages.emplace_back(pack_parcels(parcels));
      data.push_back(data_of(message));
      bytes.push_back(bytes_of(message));
    }
    tg_incoming incoming{num_ranks()};
    require_done("all_to_all", ops_.all_to_all(ops_.self, data.data(), bytes.data(), &incoming));
    unpack("all_to_all", incoming, received);
  }

  void all_reduce_sum(std::span<std::uint64_t> values) override {
    require_done("all_reduce_sum",
                 ops_.all_reduce_sum(ops_.self, values.data(), static_cast<std::int64_t>(values.size())));
  }
  void all_reduce_max(std::span<std::uint32_t> values) override {
    require_done("all_reduce_max",
                 ops_.all_reduce_max(ops_.self, values.data(), static_cast<std::int64_t>(values.size())));
  }

  // Operations that exchanges do not use.
  void broadcast(std::span<std::uint8_t>, int) override { refuse("broadcast"); }
  void barrier() override { refuse("barrier"); }

 private:
  static const std::uint8_t* data_of(const std::vector<std::uint64_t>& message) {
    return reinterpret_cast<const std::uint8_t*>(message.data());
  }
  static std::int64_t bytes_of(const std::vector<std::uint64_t>& message) {
    return static_cast<std::int64_t>(8 * message.size());
  }
  std::size_t num_ranks() const { return static_cast<std::size_t>(ops_.size); }

  void require_done(const char* operation, int result) const {
    if (result == 0) return;
    TERNGRAD_THROW(CallbackFailed, "[communicator] the callback ", operation, " failed on rank ", ops_.rank,
                   ": it returned ", result);
  }
  [[noreturn]] static void refuse(const char* operation) {
    TERNGRAD_THROW(NotSupported, "[communicator] there is no callback ", operation);
  }

  void unpack(const char* operation, const tg_incoming& incoming, Parcels& all) const {
    if (incoming.messages.size() != num_ranks()) {
      TERNGRAD_THROW(CommunicationError, "[communicator] ", operation, " gave ", incoming.messages.size(),
                     " messages, there are ", ops_.size, " ranks");
    }
    all.clear();
    for (int rank = 0; rank < ops_.size; ++rank) {
      const tg_incoming::Received& message = incoming.messages[static_cast<std::size_t>(rank)];
      unpack_parcels({reinterpret_cast<const std::uint8_t*>(message.words.get()), message.bytes}, operation, rank, all);
    }
  }

  tg_communicator_ops ops_;
};

void check(const tg_communicator_ops& ops) {
  TERNGRAD_REQUIRE(ops.struct_size >= sizeof(ops), "ops.struct_size is ", ops.struct_size, "; set it to sizeof, ",
                   sizeof(ops), " in this version");
  TERNGRAD_REQUIRE(ops.size >= 1 && ops.rank >= 0 && ops.rank < ops.size,
                   "a communicator's rank must be in [0, size), got rank ", ops.rank, " of ", ops.size);
  TERNGRAD_REQUIRE(ops.all_gather != nullptr, "ops.all_gather is NULL");
  TERNGRAD_REQUIRE(ops.all_to_all != nullptr, "ops.all_to_all is NULL");
  TERNGRAD_REQUIRE(ops.all_reduce_sum != nullptr, "ops.all_reduce_sum is NULL");
  TERNGRAD_REQUIRE(ops.all_reduce_max != nullptr, "ops.all_reduce_max is NULL");
}

}  // namespace

extern "C" {

uint8_t* tg_incoming_add(tg_incoming* incoming, int64_t bytes) {
  uint8_t* place = nullptr;
  guard([&] {
    tg_incoming& into = deref(incoming, "incoming");
    TERNGRAD_REQUIRE(bytes >= 0, "a message of ", bytes, " bytes");
    TERNGRAD_REQUIRE(into.messages.size() < into.num_expected, "all ", into.num_expected, " messages were added");
    const auto size = static_cast<std::size_t>(bytes);
    auto words = std::make_unique_for_overwrite<std::uint64_t[]>(size / 8 + 1);
    auto* const begin = reinterpret_cast<uint8_t*>(words.get());
    into.messages.push_back({std::move(words), size});
    place = begin;
  });
  return place;
}

tg_status tg_communicator_self(tg_communicator** out) {
  return guard([&] {
    tg_communicator*& made = deref(out, "out");
    made = new tg_communicator{make_self_communicator()};
  });
}

tg_status tg_communicator_custom(const tg_communicator_ops* ops, tg_communicator** out) {
  return guard([&] {
    check(deref(ops, "ops"));
    tg_communicator*& made = deref(out, "out");
    auto communicator = std::make_unique<tg_communicator>();
    // Last operation that may throw, so that `release` is not called after a failure.
    communicator->communicator = std::make_shared<CustomCommunicator>(*ops);
    made = communicator.release();
  });
}

void tg_communicator_destroy(tg_communicator* communicator) { delete communicator; }

}  // extern "C"
