// ThreadMailbox, which other tests use, passes the conformance tests.
#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <vector>

#include "support/mailbox_conformance.h"
#include "support/thread_communicator.h"
#include "support/thread_mailbox.h"

namespace terngrad::mailbox_test {
namespace {

using testing::PostOffice;
using testing::run_mailboxes;

void expect_no_error(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

TEST(ThreadMailbox, DoesWhatMailboxesDo) {
  for (const int size : {1, 2, 4}) {
    testing::Meeting meeting(size);
    expect_no_error(run_mailboxes(std::make_shared<PostOffice>(size),
                                  [&](const auto& m) { testing::check_mailbox(*m, [&] { meeting.wait(); }); }));
  }
}

TEST(ThreadMailbox, NamesWhoIsSilent) {
  expect_no_error(
      run_mailboxes(std::make_shared<PostOffice>(3, 0.3), [](const auto& m) { testing::check_silence(*m, 0.3); }));
}

TEST(ThreadMailbox, AFailureOfOneEndsAll) {
  const auto errors = run_mailboxes(std::make_shared<PostOffice>(2), [](const auto& m) {
    if (m->rank() == 1) throw DataError("lost");
    Parcels message;
    m->receive(testing::other_ranks(*m), message);
  });
  EXPECT_THROW(std::rethrow_exception(errors[0]), CommunicationError);
  EXPECT_THROW(std::rethrow_exception(errors[1]), DataError);
}

}  // namespace
}  // namespace terngrad::mailbox_test
