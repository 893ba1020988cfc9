// Tests that every Mailbox must pass. All ranks call these functions with the same arguments.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "compress/comm/mailbox.h"
#include "kernels/runtime/errors.h"
#include "support/communicator_conformance.h"

namespace terngrad::testing {

inline std::vector<int> other_ranks(const Mailbox& m) {
  std::vector<int> ranks(static_cast<std::size_t>(m.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::erase(ranks, m.rank());
  return ranks;
}

/// Message `number`, of number % 4 parcels.
inline Parcels test_message(int from, int to, std::size_t number, std::size_t scale) {
  Parcels parcels;
  for (std::size_t i = 0; i < number % 4; ++i) parcels.append(parcel_content(from, to, number + i, scale));
  return parcels;
}

/// All ranks send to all others before they receive: send does not block, and messages between two ranks keep their
/// order. @param scale  largest parcel size / 7
inline void check_crossing_messages(Mailbox& m, std::size_t scale) {
  constexpr std::size_t kMessages = 9;
  const std::vector<int> others = other_ranks(m);
  for (std::size_t number = 0; number < kMessages; ++number) {
    for (const int to : others) m.send(to, test_message(m.rank(), to, number, scale));
  }
  std::vector<std::size_t> next(static_cast<std::size_t>(m.size()));
  Parcels message;
  message.append(std::vector<std::uint8_t>{1, 2, 3});  // receive replaces the content
  for (std::size_t i = 0; i < kMessages * others.size(); ++i) {
    const int from = m.receive(others, message);
    const Parcels expected = test_message(from, m.rank(), next[static_cast<std::size_t>(from)]++, scale);
    ASSERT_EQ(message.count(), expected.count());
    for (std::size_t p = 0; p < expected.count(); ++p) {
      const std::span<const std::uint8_t> content = expected.parcel(p);
      expect_parcel(message.parcel(p), {content.begin(), content.end()});
    }
  }
  m.flush();
}

/// Request and reply: rank 0 answers the others in order of arrival.
inline void check_questions(Mailbox& m, std::size_t bytes) {
  constexpr int kQuestions = 20;
  Parcels message;
  if (m.rank() != 0) {
    for (int question = 0; question < kQuestions; ++question) {
      Parcels asked;
      asked.append(std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(m.rank() + question)));
      m.send(0, std::move(asked));
      const std::vector<int> server = {0};
      ASSERT_EQ(m.receive(server, message), 0);
      ASSERT_EQ(message.count(), 1u);
      const auto expected = static_cast<std::uint8_t>(2 * (m.rank() + question));
      expect_parcel(message.parcel(0), std::vector<std::uint8_t>(bytes, expected));
    }
    return;
  }
  for (int i = 0; i < kQuestions * (m.size() - 1); ++i) {
    const int from = m.receive(other_ranks(m), message);
    for (std::uint8_t& byte : message.parcel(0)) byte = static_cast<std::uint8_t>(2 * byte);
    m.send(from, std::move(message));
  }
  m.flush();
}

inline void check_refusals(Mailbox& m) {
  EXPECT_THROW(m.send(m.rank(), Parcels()), InvalidArgument);
  EXPECT_THROW(m.send(-1, Parcels()), InvalidArgument);
  EXPECT_THROW(m.send(m.size(), Parcels()), InvalidArgument);
  if (m.size() == 1) return;
  Parcels many;
  for (std::size_t i = 0; i <= Mailbox::kMaxParcels; ++i) many.append({});
  EXPECT_THROW(m.send((m.rank() + 1) % m.size(), std::move(many)), InvalidArgument);
}

/// All checks except check_silence, with empty, small and large messages.
/// @param meet  barrier over all ranks that does not use the mailbox; separates the messages of the checks
template <class Meet>
void check_mailbox(Mailbox& m, const Meet& meet) {
  for (const std::size_t scale : {0u, 1u, 13u, 600u, 30000u}) {
    check_crossing_messages(m, scale);
    meet();
  }
  for (const std::size_t bytes : {0u, 1u, 3000u, 4096u, 300007u}) {
    check_questions(m, bytes);
    meet();
  }
  check_refusals(m);
  meet();
}

/// With a timeout of `seconds`, rank 0 reports that only the last rank is silent, although the others keep sending.
inline void check_silence(Mailbox& m, double seconds) {
  const int silent = m.size() - 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  Parcels message;
  if (m.rank() == 0) {
    try {
      for (;;) m.receive(other_ranks(m), message);
    } catch (const CommunicationError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("heard nothing from"), std::string::npos) << what;
      for (int rank = 1; rank < m.size(); ++rank) {
        const std::string behind = what.substr(what.find("heard nothing from"));
        EXPECT_EQ(behind.find("rank " + std::to_string(rank)) != std::string::npos, rank == silent) << what;
      }
    }
    EXPECT_GE(elapsed(), seconds);
    EXPECT_LT(elapsed(), 3 * seconds + 5);
    return;
  }
  while (elapsed() < 2.5 * seconds) {
    if (m.rank() != silent) m.send(0, Parcels());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace terngrad::testing
