// A Communicator whose ranks are threads of one process.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "compress/comm/communicator.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"

namespace terngrad::testing {

/// Reusable barrier of a group of ranks. After abort() every wait throws CommunicationError, so that a failed rank ends
/// all others. A wait also throws if another rank does not arrive in time.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size), places_(static_cast<std::size_t>(size), nullptr) {}

  /// @param seconds  timeout; 0: none
  void wait(double seconds = 0) {
    std::unique_lock lock(mutex_);
    if (aborted_) throw CommunicationError("another rank failed");
    const int round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      const auto is_over = [&] { return round_ != round || aborted_; };
      if (seconds == 0) {
        changed_.wait(lock, is_over);
      } else if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), is_over)) {
        throw CommunicationError("another rank has not come");
      }
    }
    if (aborted_ && round_ == round) throw CommunicationError("another rank failed");
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
    for (const auto& part : parts_) part->abort();
  }
  /// Collective: the meeting of the ranks with the same part, which ends with this one.
  std::shared_ptr<Meeting> split(std::span<const int> parts, int rank) {
    const int part = parts[static_cast<std::size_t>(rank)];
    const auto first = std::ranges::find(parts, part) - parts.begin();
    std::shared_ptr<Meeting> made;
    if (first == rank) {
      const std::lock_guard lock(mutex_);
      made = std::make_shared<Meeting>(static_cast<int>(std::ranges::count(parts, part)));
      parts_.push_back(made);
      if (aborted_) made->abort();
    }
    place(rank) = &made;
    wait();
    std::shared_ptr<Meeting> meeting = *static_cast<std::shared_ptr<Meeting>*>(place(static_cast<int>(first)));
    wait();
    return meeting;
  }
  int size() const { return size_; }
  void*& place(int rank) { return places_[static_cast<std::size_t>(rank)]; }

 private:
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int round_ = 0;
  bool aborted_ = false;
  std::vector<void*> places_;
  std::vector<std::shared_ptr<Meeting>> parts_;
};

/// Element-wise sum of arrays in host memory, in float32, with one final rounding.
class FloatSum {
 public:
  explicit FloatSum(const FloatSpan& shape)
      : FloatSum(shape.type, std::vector<float>(static_cast<std::size_t>(shape.count))) {}
  FloatSum(ElementType type, std::vector<float> first) : type_(type), sum_(std::move(first)) {}
  const std::vector<float>& values() const { return sum_; }
  void add(const void* values) {
    std::vector<float> summand(sum_.size());
    widen(values, type_, summand, stream_);
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += summand[i];
  }
  void write(void* out) {
    if (type_ == ElementType::kFloat32) {
      std::copy(sum_.begin(), sum_.end(), static_cast<float*>(out));
      return;
    }
    const std::span<std::uint16_t> narrow(static_cast<std::uint16_t*>(out), sum_.size());
    (type_ == ElementType::kBfloat16 ? encode_bfloat16 : encode_float16)(sum_, narrow, stream_);
  }

 private:
  Stream stream_{Device::cpu(), 1};
  ElementType type_;
  std::vector<float> sum_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  void all_gather(Parcels& mine, Parcels& all) override {
    Parcels result;
    exchange(&mine, [&](int, void* theirs) { append_all(*static_cast<Parcels*>(theirs), result); });
    all = std::move(result);
  }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override {
    Parcels result;
    exchange(outgoing.data(), [&](int, void* theirs) { append_all(static_cast<Parcels*>(theirs)[rank_], result); });
    incoming = std::move(result);
  }
  void all_reduce_sum(std::span<std::uint64_t> values) override {
    reduce(values, [](std::uint64_t& into, std::uint64_t value) { into += value; });
  }
  void all_reduce_max(std::span<std::uint32_t> values) override {
    reduce(values, [](std::uint32_t& into, std::uint32_t value) { into = into < value ? value : into; });
  }
  void broadcast(std::span<std::uint8_t> values, int root) override {
    exchange(values.data(), [&](int rank, void* theirs) {
      if (rank == root && rank != rank_ && !values.empty()) std::memcpy(values.data(), theirs, values.size());
    });
  }
  void barrier() override { meeting_->wait(timeout_seconds_); }
  void set_timeout(double seconds) override { timeout_seconds_ = seconds; }
  std::unique_ptr<Communicator> split(int part) override {
    std::vector<int> parts;
    exchange(&part, [&](int, void* theirs) { parts.push_back(*static_cast<int*>(theirs)); });
    const auto place = std::count(parts.begin(), parts.begin() + rank_, part);
    return std::make_unique<ThreadCommunicator>(meeting_->split(parts, rank_), static_cast<int>(place));
  }
  void vendor_sum(const FloatSpan& values) override {
    FloatSum sum(values);
    exchange(values.values, [&](int, void* theirs) { sum.add(theirs); });
    sum.write(values.values);
  }

 private:
  static void append_all(const Parcels& from, Parcels& to) {
    for (std::size_t i = 0; i < from.count(); ++i) to.append(from.parcel(i));
  }
  /// Publishes `mine` and calls take(rank, theirs) for all ranks in order.
  template <class Take>
  void exchange(void* mine, const Take& take) {
    meeting_->place(rank_) = mine;
    meeting_->wait(timeout_seconds_);
    for (int rank = 0; rank < size(); ++rank) take(rank, meeting_->place(rank));
    meeting_->wait(timeout_seconds_);
  }
  template <class T, class Combine>
  void reduce(std::span<T> values, const Combine& combine) {
    std::vector<T> result(values.size(), T{});
    exchange(values.data(), [&](int, void* theirs) {
      for (std::size_t i = 0; i < values.size(); ++i) combine(result[i], static_cast<const T*>(theirs)[i]);
    });
    std::copy(result.begin(), result.end(), values.begin());
  }
  std::shared_ptr<Meeting> meeting_;
  int rank_;
  double timeout_seconds_ = 0;
};

/// Runs body(communicator) on `size` ranks concurrently. @returns each rank's exception or null
/// @tparam C  communicator type, constructed from a Meeting and a rank
template <class C, class Body>
std::vector<std::exception_ptr> run_threads(int size, const Body& body) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(std::make_shared<C>(meeting, rank));
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
        meeting->abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

template <class Body>
std::vector<std::exception_ptr> run_ranks(int size, const Body& body) {
  return run_threads<ThreadCommunicator>(size, body);
}

}  // namespace terngrad::testing
