#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/c_api.h"
#include "support/exchanges.h"
#include "support/sanitized.h"
#include "support/thread_communicator.h"

namespace terngrad::capi_communicator_test {
namespace {

using testing::c_arrays;
using testing::CCommunicator;
using testing::CExchange;
using testing::CPlan;
using testing::fails;
using testing::is_ok;
using testing::is_refused;
using testing::Meeting;
using testing::sized;
using testing::Tensors;
using Bytes = std::vector<std::uint8_t>;

/// One rank as a thread: the callbacks that a caller implements to connect processes, with faults on request.
class Rank {
 public:
  Rank(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  tg_communicator_ops ops() {
    tg_communicator_ops made = sized<tg_communicator_ops>();
    made.rank = rank_;
    made.size = meeting_->size();
    made.self = this;
    made.all_gather = [](void* self, const std::uint8_t* message, std::int64_t bytes, tg_incoming* all) {
      return of(self).gather(message, bytes, all);
    };
    made.all_to_all = [](void* self, const std::uint8_t* const* messages, const std::int64_t* bytes,
                         tg_incoming* incoming) { return of(self).scatter(messages, bytes, incoming); };
    made.all_reduce_sum = [](void* self, std::uint64_t* values, std::int64_t n) {
      return of(self).reduce(values, n, [](std::uint64_t a, std::uint64_t b) { return a + b; });
    };
    made.all_reduce_max = [](void* self, std::uint32_t* values, std::int64_t n) {
      return of(self).reduce(values, n, [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
    };
    made.release = [](void* self) { ++of(self).num_released; };
    return made;
  }
  CCommunicator communicator() {
    const tg_communicator_ops given = ops();
    return testing::make_handle<CCommunicator>(
        [&](tg_communicator** out) { return tg_communicator_custom(&given, out); });
  }

  int num_released = 0;
  int num_calls = 0;
  int fails_at = -1;      // index of the call that fails, -1: none
  int result = 1;         // return value of the failing call
  int num_messages = -1;  // messages to return, -1: one per rank
  int damage = 0;         // bytes cut off each message

 private:
  static Rank& of(void* self) { return *static_cast<Rank*>(self); }

  /// Publishes a pointer of this rank to all ranks and calls `look` with each rank's pointer.
  template <class Look>
  int exchange(void* mine, const Look& look) {
    if (num_calls++ == fails_at) return result;
    try {
      meeting_->place(rank_) = mine;
      meeting_->wait();
      for (int rank = 0; rank < meeting_->size(); ++rank) look(meeting_->place(rank));
      meeting_->wait();
    } catch (const CommunicationError&) {
      return 3;
    }
    return 0;
  }
  int add(const Bytes& message, tg_incoming* all) {
    const auto size = static_cast<std::int64_t>(message.size()) - damage;
    std::uint8_t* const place = tg_incoming_add(all, size);
    EXPECT_NE(place, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % 8, 0u);
    if (size > 0) std::memcpy(place, message.data(), static_cast<std::size_t>(size));
    return 0;
  }
  int gather(const std::uint8_t* message, std::int64_t bytes, tg_incoming* all) {
    Bytes mine(message, message + bytes);
    int num_added = 0;
    return exchange(&mine, [&](void* theirs) {
      if (num_messages < 0 || num_added++ < num_messages) add(*static_cast<Bytes*>(theirs), all);
    });
  }
  int scatter(const std::uint8_t* const* messages, const std::int64_t* bytes, tg_incoming* incoming) {
    std::vector<Bytes> mine;
    for (int to = 0; to < meeting_->size(); ++to) mine.emplace_back(messages[to], messages[to] + bytes[to]);
    return exchange(&mine, [&](void* theirs) {
      add((*static_cast<std::vector<Bytes>*>(theirs))[static_cast<std::size_t>(rank_)], incoming);
    });
  }
  template <class Value, class Combine>
  int reduce(Value* values, std::int64_t n, const Combine& combine) {
    std::vector<Value> result_of_all(static_cast<std::size_t>(n), 0);
    const int failed = exchange(values, [&](void* theirs) {
      for (std::size_t i = 0; i < result_of_all.size(); ++i) {
        result_of_all[i] = combine(result_of_all[i], static_cast<Value*>(theirs)[i]);
      }
    });
    std::ranges::copy(result_of_all, values);
    return failed;
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

constexpr int kWorkers = 5;

/// Exchanges all tensors of this rank's workers in one step.
tg_status run_step(const CExchange& exchange, const std::vector<Tensors>& gradients, Tensors& mean,
                   std::uint64_t step) {
  tg_exchange_info info = sized<tg_exchange_info>();
  EXPECT_TRUE(is_ok(tg_exchange_get_info(exchange.get(), &info)));
  std::vector<tg_array> arrays;
  for (int worker = info.first_local_worker; worker < info.first_local_worker + info.num_local_workers; ++worker) {
    for (const tg_array& array : c_arrays(gradients[static_cast<std::size_t>(worker)].values)) arrays.push_back(array);
  }
  const std::int32_t all[] = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_TRUE(is_ok(tg_exchange_begin(exchange.get(), step)));
  const tg_status status =
      tg_exchange_part(exchange.get(), all, 7, arrays.data(), c_arrays(mean.values).data(), nullptr);
  return status == TG_OK ? tg_exchange_finish(exchange.get(), nullptr) : status;
}

template <class Body>
void for_each_rank(int size, const Body& body) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::thread> threads;
  for (int number = 0; number < size; ++number) {
    threads.emplace_back([&, number] {
      Rank rank(meeting, number);
      body(number, rank);
      meeting->abort();  // unblocks ranks that still wait for a failed one
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CCommunicator, RanksGetTheBitsOfOneProcess) {
  const Layout layout = testing::mixed_layout();
  for (const char* options : {"algorithm=all_gather", "algorithm=scatter_reduce downlink_codec=ternary",
                              "algorithm=integer_sum memory=ef", "algorithm=scatter_reduce downlink_codec=sums"}) {
    const CPlan plan = testing::c_plan(layout, kWorkers, "codec_for=plain=fp32");
    const CExchange alone = testing::c_exchange(plan, nullptr, options);
    std::vector<Tensors> expected;
    for (std::uint64_t step = 0; step < 2; ++step) {
      expected.push_back(testing::blank_tensors(layout));
      ASSERT_TRUE(is_ok(run_step(alone, testing::worker_gradients(layout, kWorkers, step), expected.back(), step)));
    }
    for (const int size : {1, 2, 3}) {
      const auto meeting = std::make_shared<Meeting>(size);
      std::vector<std::thread> threads;
      for (int number = 0; number < size; ++number) {
        threads.emplace_back([&, number] {
          Rank rank(meeting, number);
          CCommunicator communicator = rank.communicator();
          CExchange exchange = testing::c_exchange(plan, communicator.get(), options);
          for (std::uint64_t step = 0; step < 2; ++step) {
            Tensors mean = testing::blank_tensors(layout);
            EXPECT_TRUE(is_ok(run_step(exchange, testing::worker_gradients(layout, kWorkers, step), mean, step)));
            EXPECT_TRUE(testing::same_bits(expected[step].values, mean)) << options << ", rank " << number;
          }
          if (size > 1) {
            EXPECT_GT(rank.num_calls, 0);
          }
          communicator.reset();
          EXPECT_EQ(rank.num_released, 0);
          exchange.reset();
          EXPECT_EQ(rank.num_released, 1);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

TEST(CCommunicator, CallbacksThatFailEndTheCall) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, kWorkers, "");
  const std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
  // Scalers are gathered first; the gradient is then gathered or scattered. integer_sum gathers the tensor without
  // elements, which is fp32, and sums codes. A ternary downlink also all-reduces the maxima of the sums.
  struct Case {
    const char* options;
    int call;
    const char* operation;
  };
  for (const Case& c : {Case{"algorithm=all_gather", 0, "all_gather"},
                        {"algorithm=all_gather", 1, "all_gather"},
                        {"algorithm=scatter_reduce", 1, "all_to_all"},
                        {"algorithm=integer_sum", 2, "all_reduce_sum"},
                        {"algorithm=scatter_reduce downlink_codec=ternary", 2, "all_reduce_max"}}) {
    for_each_rank(2, [&](int number, Rank& rank) {
      const CCommunicator communicator = rank.communicator();
      const CExchange exchange = testing::c_exchange(plan, communicator.get(), c.options);
      Tensors mean = testing::blank_tensors(layout);
      if (number == 1) {
        rank.fails_at = c.call;
        rank.result = -7;
      }
      const std::string text = std::string("the callback ") + c.operation + " failed on rank " +
                               std::to_string(number) + ": it returned " + (number == 1 ? "-7" : "3");
      EXPECT_TRUE(fails(run_step(exchange, gradients, mean, 0), TG_CALLBACK, text)) << c.options;
      EXPECT_TRUE(is_refused(tg_exchange_finish(exchange.get(), nullptr), "has failed: another step has to begin"));
    });
  }
}

TEST(CCommunicator, RefusesWhatIsNoMessageOfEachRank) {
  const Layout layout = testing::mixed_layout();
  const CPlan plan = testing::c_plan(layout, kWorkers, "");
  const std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
  for (const auto& [num_messages, damage, text] : {std::tuple{1, 0, "all_gather gave 1 messages, there are 2 ranks"},
                                                   std::tuple{-1, 8, "bytes for rank 0 that are no parcels"}}) {
    for_each_rank(2, [&](int, Rank& rank) {
      rank.num_messages = num_messages;
      rank.damage = damage;
      const CCommunicator communicator = rank.communicator();
      const CExchange exchange = testing::c_exchange(plan, communicator.get(), "");
      Tensors mean = testing::blank_tensors(layout);
      EXPECT_TRUE(fails(run_step(exchange, gradients, mean, 0), TG_COMMUNICATION, text));
    });
  }
}

TEST(CCommunicator, RefusesRanksOfOtherPlans) {
  const Layout layout = testing::mixed_layout();
  const std::vector<Tensors> gradients = testing::worker_gradients(layout, kWorkers);
  for_each_rank(2, [&](int number, Rank& rank) {
    const CPlan plan = testing::c_plan(layout, kWorkers, number == 0 ? "clip_factor=2.5" : "");
    const CCommunicator communicator = rank.communicator();
    const CExchange exchange = testing::c_exchange(plan, communicator.get(), "");
    Tensors mean = testing::blank_tensors(layout);
    EXPECT_TRUE(fails(run_step(exchange, gradients, mean, 0), TG_COMMUNICATION, "layout fingerprint"));
  });
}

TEST(CCommunicator, GivesNoRoomForMoreMessagesThanRanks) {
  tg_communicator_ops ops = Rank(std::make_shared<Meeting>(2), 0).ops();
  ops.all_gather = [](void*, const std::uint8_t*, std::int64_t, tg_incoming* all) {
    EXPECT_EQ(tg_incoming_add(all, -1), nullptr);
    EXPECT_STREQ(tg_last_error(), "a message of -1 bytes");
    if (!testing::kIsSanitized) {  // a sanitizer aborts on allocations of that size
      EXPECT_EQ(tg_incoming_add(all, std::int64_t{1} << 60), nullptr);
      EXPECT_STREQ(tg_last_error(), "out of memory");
    }
    EXPECT_NE(tg_incoming_add(all, 0), nullptr);
    EXPECT_NE(tg_incoming_add(all, 1), nullptr);
    EXPECT_EQ(tg_incoming_add(all, 1), nullptr);
    EXPECT_STREQ(tg_last_error(), "all 2 messages were added");
    return 0;
  };
  ops.release = nullptr;
  const auto communicator =
      testing::make_handle<CCommunicator>([&](tg_communicator** out) { return tg_communicator_custom(&ops, out); });
  const Layout layout = testing::mixed_layout();
  const CExchange exchange = testing::c_exchange(testing::c_plan(layout, 2, ""), communicator.get(), "");
  Tensors mean = testing::blank_tensors(layout);
  EXPECT_TRUE(fails(run_step(exchange, testing::worker_gradients(layout, 2), mean, 0), TG_COMMUNICATION,
                    "all_gather gave 0 bytes for rank 0 that are no parcels"));
}

TEST(CCommunicator, RefusesOperationsByName) {
  Rank rank(std::make_shared<Meeting>(2), 0);
  const auto refused = [&](const auto& change) {
    tg_communicator_ops ops = rank.ops();
    change(ops);
    tg_communicator* made = nullptr;
    const tg_status status = tg_communicator_custom(&ops, &made);
    EXPECT_EQ(made, nullptr);
    return status;
  };
  using Ops = tg_communicator_ops;
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.struct_size = 8; }), "ops.struct_size is 8"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.rank = 2; }), "got rank 2 of 2"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.rank = -1; }), "got rank -1 of 2"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.size = 0; }), "of 0"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.all_gather = nullptr; }), "all_gather is NULL"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.all_to_all = nullptr; }), "all_to_all is NULL"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.all_reduce_sum = nullptr; }), "all_reduce_sum is NULL"));
  EXPECT_TRUE(is_refused(refused([](Ops& o) { o.all_reduce_max = nullptr; }), "all_reduce_max is NULL"));
  EXPECT_EQ(rank.num_released, 0);
  // More ranks than workers are refused.
  const CCommunicator communicator = rank.communicator();
  tg_exchange* made = nullptr;
  EXPECT_TRUE(is_refused(
      tg_exchange_create(testing::c_plan(testing::mixed_layout(), 1, "").get(), communicator.get(), "", nullptr, &made),
      "worker"));
}

}  // namespace
}  // namespace terngrad::capi_communicator_test
