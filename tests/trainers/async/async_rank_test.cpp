// Failures and stops of a rank of workers. See also async_trainer_test.cpp (complete runs).
#include "trainers/async/async_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_mailbox.h"
#include "tests/trainers/small_async.h"

namespace terngrad::async_rank_test {
namespace {

using ::testing::HasSubstr;
using testing::PostOffice;
using testing::SmallAsync;

SmallAsync two_workers(const std::shared_ptr<Mailbox>& mailbox) {
  return {.run = {.num_workers = 2, .codec = "ternary", .total_steps = 3}, .mailbox = mailbox};
}

std::string text_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(AsyncRank, NamesAServerThatIsSilent) {
  const auto errors = testing::run_mailboxes(std::make_shared<PostOffice>(2, 0.3), [](const auto& mailbox) {
    if (mailbox->rank() == 0) return;  // never answers
    testing::make_small_rank(two_workers(mailbox))->run([] { return false; });
  });
  EXPECT_THAT(text_of(errors[1]), HasSubstr("heard nothing from rank 0"));
}

TEST(AsyncRank, IsNamedWhenItIsSilent) {
  const auto errors = testing::run_mailboxes(std::make_shared<PostOffice>(3, 0.5), [](const auto& mailbox) {
    if (mailbox->rank() == 2) return;  // never pulls; the other rank continues
    SmallAsync async = two_workers(mailbox);
    async.run.total_steps = 1000000;
    if (mailbox->rank() == 0) {
      testing::make_small_async(async)->run();
    } else {
      testing::make_small_rank(async)->run([] { return false; });
    }
  });
  EXPECT_THAT(text_of(errors[0]), HasSubstr("heard nothing from rank 2"));
}

TEST(AsyncRank, ListensToTheServerOnly) {
  const auto errors = testing::run_mailboxes(std::make_shared<PostOffice>(3), [](const auto& mailbox) {
    if (mailbox->rank() == 2) mailbox->send(1, Parcels());
    if (mailbox->rank() == 1) testing::make_small_rank(two_workers(mailbox))->run([] { return false; });
  });
  EXPECT_THAT(text_of(errors[1]), HasSubstr("rank 2 sends to a worker"));
}

TEST(AsyncRank, HasWorkers) {
  const auto mailbox = std::make_shared<testing::ThreadMailbox>(std::make_shared<PostOffice>(2), 1);
  EXPECT_THROW(AsyncRank({}, mailbox, 1), InvalidArgument);
}

TEST(AsyncRank, SpeaksForItsOwnWorkersOnly) {
  const auto errors = testing::run_mailboxes(std::make_shared<PostOffice>(3), [](const auto& mailbox) {
    if (mailbox->rank() == 0) testing::make_small_async(two_workers(mailbox))->run();
    if (mailbox->rank() != 1) return;
    Parcels pull;
    testing::make_small_worker(two_workers(mailbox), 1)->write_pull(pull);  // worker of rank 2
    mailbox->send(0, std::move(pull));
  });
  EXPECT_THAT(text_of(errors[0]), HasSubstr("rank 1 sends a message of worker 1"));
}

}  // namespace
}  // namespace terngrad::async_rank_test
