#include "trainers/loop/exchange_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::exchange_thread_test {
namespace {

using ::testing::ElementsAre;

void sleep_ms(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

TEST(ExchangeThread, DoesWorkInOrderBesideItsOwner) {
  ExchangeThread thread;
  std::vector<int> done;  // read only after wait
  std::thread::id where;
  for (int step = 0; step < 50; ++step) {
    for (int piece = 0; piece < 3; ++piece) {
      thread.submit([&, piece] {
        done.push_back(piece);
        where = std::this_thread::get_id();
      });
    }
    thread.wait();
    ASSERT_THAT(done, ElementsAre(0, 1, 2));
    EXPECT_NE(where, std::this_thread::get_id());
    done.clear();
  }
}

TEST(ExchangeThread, TakesWorkFromAnyThread) {
  ExchangeThread thread;
  int sum = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { thread.submit([&] { ++sum; }); });
  }
  thread.wait();
  EXPECT_EQ(sum, 4);
}

TEST(ExchangeThread, WaitsForNothingWithoutWork) {
  ExchangeThread thread;
  EXPECT_EQ(thread.wait().hidden_seconds, 0);
}

TEST(ExchangeThread, TellsWhatWasWaitedForFromWhatWasNot) {
  ExchangeThread thread;
  std::promise<void> begun;
  thread.submit([&] {
    begun.set_value();
    sleep_ms(60);
  });
  begun.get_future().wait();
  sleep_ms(20);
  const ExchangeThread::Times times = thread.wait();
  EXPECT_GE(times.hidden_seconds, 0.015);
  // All of the work ran before or during the wait.
  EXPECT_GE(times.hidden_seconds + times.exposed_seconds, 0.059);
  // Work that ends before the wait is hidden completely; the next step starts at zero.
  std::promise<void> ended;
  thread.submit([&] { sleep_ms(30); });
  thread.submit([&] { ended.set_value(); });
  ended.get_future().wait();
  EXPECT_GE(thread.wait().hidden_seconds, 0.029);
  EXPECT_EQ(thread.wait().hidden_seconds, 0);
}

TEST(ExchangeThread, AnExceptionReachesTheOwnerAndDropsWhatFollows) {
  ExchangeThread thread;
  std::atomic<int> done = 0;
  std::promise<void> go;
  thread.submit([&, wait = go.get_future().share()] {
    wait.wait();
    ++done;
  });
  thread.submit([] { throw CommunicationError("a peer is gone"); });
  thread.submit([&] { ++done; });
  go.set_value();
  EXPECT_THROW(thread.wait(), CommunicationError);
  EXPECT_EQ(done, 1);
  // The next step works normally.
  thread.submit([&] { ++done; });
  EXPECT_NO_THROW(thread.wait());
  EXPECT_EQ(done, 2);
}

TEST(ExchangeThread, WorkThatComesAfterAFailureIsDropped) {
  ExchangeThread thread;
  std::promise<void> failed;
  bool is_done = false;
  thread.submit([&] {
    failed.set_value();
    throw CommunicationError("a peer is gone");
  });
  failed.get_future().wait();
  sleep_ms(5);
  thread.submit([&] { is_done = true; });
  EXPECT_THROW(thread.wait(), CommunicationError);
  EXPECT_FALSE(is_done);
}

TEST(ExchangeThread, CancelDropsWhatHasNotBegunAndWaitsForWhatHas) {
  ExchangeThread thread;
  std::promise<void> begun;
  bool first_ended = false;
  bool second_ended = false;
  thread.submit([&] {
    begun.set_value();
    sleep_ms(20);
    first_ended = true;
    throw CommunicationError("nobody hears of this");
  });
  thread.submit([&] { second_ended = true; });
  begun.get_future().wait();
  thread.cancel();
  EXPECT_TRUE(first_ended);
  EXPECT_FALSE(second_ended);
  EXPECT_NO_THROW(thread.wait());
}

TEST(ExchangeThread, EndsWithWorkLeft) {
  std::promise<void> begun;
  bool second_ended = false;
  {
    ExchangeThread thread;
    thread.submit([&] {
      begun.set_value();
      sleep_ms(10);
    });
    thread.submit([&] { second_ended = true; });
    begun.get_future().wait();
  }
  EXPECT_FALSE(second_ended);
}

}  // namespace
}  // namespace terngrad::exchange_thread_test
