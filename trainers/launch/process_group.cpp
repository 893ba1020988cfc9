#include "trainers/launch/process_group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <thread>
#include <utility>

#include "compress/comm/mpi/mpi_communicator.h"
#include "compress/comm/mpi/mpi_session.h"
#include "kernels/runtime/errors.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/group_error.h"

namespace terngrad {
namespace {

/// Result of a collective step on a rank.
struct Outcome {
  int exit_code = kExitSuccess;
  std::string message;
};

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string text_of(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

Outcome outcome_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const UsageError& error) {
    return {kExitUsage, error.what()};
  } catch (const std::bad_alloc&) {
    return {kExitFailure, "out of memory"};
  } catch (const std::exception& error) {
    return {kExitFailure, error.what()};
  }
}

/// Gives other ranks time to print their errors before this one ends them.
void give_others_time() { std::this_thread::sleep_for(std::chrono::seconds(2)); }

/// Bytes of the processor affinity of this process.
std::string processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  static_cast<void>(sched_getaffinity(0, sizeof(set), &set));
  return {reinterpret_cast<const char*>(&set), sizeof(set)};
}

}  // namespace

ProcessGroup::ProcessGroup() : timeout_seconds_(MpiOptions{}.timeout_seconds) {
  if (!is_launched_by_mpi()) {
    communicator_ = make_self_communicator();
    return;
  }
  if (!has_mpi()) {
    const int size = launched_rank().size;
    if (size > 1) {
      TERNGRAD_THROW(
          UsageError, "a launcher started ", size,
          " processes, but this build has no MPI: install libopenmpi-dev and build it with -DTERNGRAD_MPI=ON");
    }
    communicator_ = make_self_communicator();
    return;
  }
  session_ = std::make_unique<MpiSession>();
  use(make_mpi_communicator());
  own_name_ = name_of(rank());
}

ProcessGroup::~ProcessGroup() = default;

bool ProcessGroup::is_evaluator() const { return launch_ != nullptr && launch_->rank() == launch_->size() - 1; }

void ProcessGroup::use(std::unique_ptr<MpiCommunicator> communicator) {
  mpi_ = communicator.get();
  communicator_ = std::move(communicator);
  find_sharing();
}

void ProcessGroup::split_evaluator_rank() {
  TERNGRAD_REQUIRE(size() > 1, "[launch] there is no other rank than the one to set aside");
  auto launch = std::static_pointer_cast<MpiCommunicator>(communicator_);
  use(launch->split_mpi(launch->rank() == launch->size() - 1 ? 1 : 0));
  launch_ = std::move(launch);
}

bool ProcessGroup::others_have_ended() const { return launch_->next_rank_has_come(); }

void ProcessGroup::send_launch_heartbeat() {
  if (others_have_ended()) {
    launch_->send_heartbeat();
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - last_heartbeat_).count() < timeout_seconds_ / 8) return;
  send_heartbeat();
}

void ProcessGroup::request_stop(int signal) {
  signal_to_others_ = signal;
  send_heartbeat();
}

// Heartbeats and signals are sent as one number; the others read the latest one.
void ProcessGroup::send_heartbeat() {
  last_heartbeat_ = std::chrono::steady_clock::now();
  launch_->send_control(++num_heartbeats_ << 8 | static_cast<std::uint64_t>(signal_to_others_));
}

int ProcessGroup::evaluator_signal() const {
  return launch_ == nullptr || is_evaluator() ? 0 : static_cast<int>(launch_->poll_control().value_or(0) & 0xff);
}

std::uint64_t ProcessGroup::evaluator_heartbeats() const {
  return launch_ == nullptr || is_evaluator() ? 0 : launch_->poll_control().value_or(0) >> 8;
}

std::string ProcessGroup::evaluator_name() const {
  if (launch_ == nullptr) return "";
  return "rank " + std::to_string(launch_->size() - 1) + " on " + launch_->hosts().back();
}

void ProcessGroup::barrier_with_evaluator() const {
  if (launch_ != nullptr) launch_->barrier();
}

void ProcessGroup::find_sharing() {
  const std::string own = host_of(rank()) + '\0' + processors();
  num_sharing_ = static_cast<int>(std::ranges::count(all_gather_strings(own), own));
}

std::vector<std::string> ProcessGroup::hosts() const {
  if (mpi_ != nullptr) return mpi_->hosts();
  std::array<char, HOST_NAME_MAX + 1> name{};
  return {gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown"};
}

std::string ProcessGroup::name_of(int rank) const {
  std::string name = "rank " + std::to_string(rank);
  if (mpi_ != nullptr) name += " on " + host_of(rank);
  return name;
}

std::unique_ptr<Mailbox> ProcessGroup::make_mailbox() const {
  TERNGRAD_REQUIRE(mpi_ != nullptr && !is_alone(), "[launch] a process alone has nobody to write to");
  // MPI creates it without a timeout; the barrier before it names a rank that is missing.
  communicator_->barrier();
  return mpi_->make_mailbox();
}

std::string ProcessGroup::host_of(int rank) const {
  return mpi_ == nullptr ? "this host" : mpi_->hosts().at(static_cast<std::size_t>(rank));
}

void ProcessGroup::set_timeout(double seconds) {
  timeout_seconds_ = seconds;
  if (mpi_ != nullptr) mpi_->set_timeout(seconds);
  if (launch_ != nullptr) launch_->set_timeout(seconds);
}

void ProcessGroup::run_collective(const std::function<void()>& body) const {
  if (is_alone()) {
    body();
    return;
  }
  const Outcome own = outcome_of(body);
  Parcels mine;
  Parcels all;
  const std::array<std::uint8_t, 1> code = {static_cast<std::uint8_t>(own.exit_code)};
  mine.append(code);
  mine.append(bytes_of(own.message));
  communicator_->all_gather(mine, all);
  int exit_code = kExitSuccess;
  int num_failed = 0;
  bool is_one_message = true;  // all failed ranks have the same message
  std::string first;
  std::string listed;
  for (int peer = 0; peer < size(); ++peer) {
    const int of_peer = all.parcel(2 * static_cast<std::size_t>(peer))[0];
    if (of_peer == kExitSuccess) continue;
    const std::string message = text_of(all.parcel(2 * static_cast<std::size_t>(peer) + 1));
    if (num_failed++ == 0) {
      exit_code = of_peer;
      first = message;
    }
    is_one_message = is_one_message && message == first;
    listed += (listed.empty() ? "" : "; ") + name_of(peer) + ": " + message;
  }
  if (num_failed == 0) return;
  throw GroupError(is_one_message && num_failed == size() ? first : listed, exit_code, is_chief());
}

std::string ProcessGroup::broadcast_string(std::string_view text) const {
  if (is_alone()) return std::string(text);
  std::uint64_t length = text.size();
  communicator_->broadcast({reinterpret_cast<std::uint8_t*>(&length), sizeof(length)}, 0);
  std::string result(text);
  result.resize(length);
  communicator_->broadcast({reinterpret_cast<std::uint8_t*>(result.data()), result.size()}, 0);
  return result;
}

std::vector<std::string> ProcessGroup::all_gather_strings(std::string_view text) const {
  Parcels mine;
  Parcels all;
  mine.append(bytes_of(text));
  communicator_->all_gather(mine, all);
  std::vector<std::string> texts;
  for (std::size_t peer = 0; peer < all.count(); ++peer) texts.push_back(text_of(all.parcel(peer)));
  return texts;
}

int ProcessGroup::run(const char* command, const std::function<int()>& body, const std::string& advice) const {
  if (is_alone()) return body();
  // A CommunicationError names the peers of its rank, so every rank prints its own. Only the chief prints an error that
  // is the same on all ranks.
  bool differs_by_rank = false;
  bool all_meet_it = false;
  Outcome outcome;
  try {
    return body();
  } catch (const GroupError& error) {
    if (error.is_chief()) print_error(command, error.what());
    if (launch_ == nullptr) return error.exit_code();
    if (!error.is_chief()) give_others_time();
    MpiSession::abort(error.exit_code());
  } catch (const UsageError& error) {
    outcome = {kExitUsage, error.what()};
  } catch (const CommunicationError& error) {
    differs_by_rank = true;
    outcome = {kExitFailure, error.what()};
  } catch (const NonFiniteError& error) {
    all_meet_it = true;
    outcome = {kExitFailure, error.what()};
  } catch (const std::bad_alloc&) {
    outcome = {kExitFailure, "out of memory"};
  } catch (const std::exception& error) {
    outcome = {kExitFailure, error.what()};
  }
  std::cout.flush();
  if (all_meet_it && !is_chief()) give_others_time();
  print_error(command, own_name_ + ": " + outcome.message + (is_chief() ? "" : advice));
  if (differs_by_rank) give_others_time();
  MpiSession::abort(outcome.exit_code);
}

}  // namespace terngrad
