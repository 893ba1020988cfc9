// A Mailbox whose ranks are threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compress/comm/mailbox.h"
#include "kernels/runtime/errors.h"

namespace terngrad::testing {

/// Message queues of a group of ranks. After abort() every call throws, so that a failed rank ends all others.
class PostOffice {
 public:
  explicit PostOffice(int size, double timeout_seconds = 60)
      : boxes_(static_cast<std::size_t>(size)), timeout_(timeout_seconds) {
    for (Box& box : boxes_) box.last_sign.resize(boxes_.size(), Clock::now());
  }
  int size() const { return static_cast<int>(boxes_.size()); }

  void send(int from, int to, Parcels message) {
    TERNGRAD_REQUIRE(to >= 0 && to < size() && to != from, "[mailbox] rank ", to, " is no other rank");
    TERNGRAD_REQUIRE(message.count() <= Mailbox::kMaxParcels, "[mailbox] too many parcels: ", message.count());
    const std::lock_guard lock(mutex_);
    require_whole();
    box(to).messages.emplace_back(from, std::move(message));
    box(to).last_sign[index(from)] = Clock::now();
    box(from).last_sign[index(to)] = Clock::now();
    changed_.notify_all();
  }

  int receive(int rank, std::span<const int> awaited, Parcels& message) {
    std::unique_lock lock(mutex_);
    Box& own = box(rank);
    const auto absence = Clock::now() - own.last_look;
    for (auto& sign : own.last_sign) sign += absence;
    for (;;) {
      require_whole();
      require_no_silence(own, awaited);
      if (!own.messages.empty()) break;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    const int from = own.messages.front().first;
    message = std::move(own.messages.front().second);
    own.messages.pop_front();
    own.last_look = own.last_sign[index(from)] = Clock::now();
    return from;
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Box {
    std::deque<std::pair<int, Parcels>> messages;
    std::vector<Clock::time_point> last_sign;  // [size]
    Clock::time_point last_look = Clock::now();
  };
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  Box& box(int rank) { return boxes_[index(rank)]; }
  void require_whole() const {
    if (aborted_) throw CommunicationError("another rank failed");
  }
  void require_no_silence(const Box& own, std::span<const int> awaited) const {
    std::string silent;
    for (const int peer : awaited) {
      bool has_arrived = false;
      for (const auto& message : own.messages) has_arrived = has_arrived || message.first == peer;
      const std::chrono::duration<double> silence = Clock::now() - own.last_sign[index(peer)];
      if (!has_arrived && silence.count() > timeout_) silent += " rank " + std::to_string(peer);
    }
    if (!silent.empty()) TERNGRAD_THROW(CommunicationError, "[threads] mailbox: heard nothing from", silent);
  }

  std::vector<Box> boxes_;
  double timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
};

class ThreadMailbox final : public Mailbox {
 public:
  ThreadMailbox(std::shared_ptr<PostOffice> office, int rank) : office_(std::move(office)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return office_->size(); }
  void send(int to, Parcels message) override { office_->send(rank_, to, std::move(message)); }
  int receive(std::span<const int> awaited, Parcels& message) override {
    return office_->receive(rank_, awaited, message);
  }
  void flush() override {}

 private:
  std::shared_ptr<PostOffice> office_;
  int rank_;
};

/// Runs body(mailbox) on all ranks of `office` concurrently. @returns each rank's exception or null
template <class Body>
std::vector<std::exception_ptr> run_mailboxes(const std::shared_ptr<PostOffice>& office, const Body& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(office->size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < office->size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(std::make_shared<ThreadMailbox>(office, rank));
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
        office->abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace terngrad::testing
