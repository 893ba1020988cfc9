// ProcessGroup: this process among those that a launcher started together.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/comm/mailbox.h"

namespace terngrad {

class MpiCommunicator;
class MpiSession;

/// The ranks of a launch (mpirun, srun), or this process alone where nothing launched it. Rank 0 is the chief: it alone
/// reports and writes.
class ProcessGroup {
 public:
  /// Joins the launch. @throws UsageError if a launcher started several processes of a build without MPI
  ProcessGroup();
  ~ProcessGroup();

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  bool is_alone() const { return size() == 1; }
  bool is_chief() const { return rank() == 0; }
  /// The host of each rank, as MPI calls it; alone, as the system does.
  std::vector<std::string> hosts() const;
  /// "rank 2 on node3".
  std::string name_of(int rank) const;
  /// "node3"; "this host" without a launcher.
  std::string host_of(int rank) const;
  /// Ranks of this host that may run on the same processors as this one, itself included.
  int num_sharing_processors() const { return num_sharing_; }

  /// Sets the last rank of the launch aside: from here on the group is that of the others, or of that one alone; a
  /// collective call. @throws InvalidArgument if there is no other rank
  void split_evaluator_rank();
  bool is_evaluator() const;
  /// For the rank aside: whether the others have come to barrier_with_evaluator. Does not wait.
  bool others_have_ended() const;
  /// Waits for the rank aside and the others; does nothing if none was set aside.
  void barrier_with_evaluator() const;
  /// For the rank aside: tells the others that it is alive, by a heartbeat as long as they train, and where they wait
  /// for it in barrier_with_evaluator as busy; at most about 8 times in the time after which it would be missed. Does
  /// not wait.
  void send_launch_heartbeat();
  /// For the rank aside: asks the others to end, because of a signal. Does not wait.
  void request_stop(int signal);
  /// For the others: the signal by which the rank aside has asked so, 0 for none. Does not wait.
  int evaluator_signal() const;
  /// For the others: heartbeats of the rank aside so far. Does not wait.
  std::uint64_t evaluator_heartbeats() const;
  /// "rank 2 on node3", the rank aside in the launch.
  std::string evaluator_name() const;

  /// A mailbox between the ranks of the group; a collective call. @throws InvalidArgument for a process alone
  std::unique_ptr<Mailbox> make_mailbox() const;

  /// From here on a peer that is waited for and silent for so long has failed.
  void set_timeout(double seconds);

  /// Does on every rank what may fail on some of them; a collective call. `body` itself must not wait for other ranks.
  /// @throws GroupError on all ranks if `body` threw on one; alone, what it threw
  void run_collective(const std::function<void()>& body) const;

  /// The chief's text on every rank; a collective call.
  std::string broadcast_string(std::string_view text) const;
  /// Every rank's text, in the order of ranks; a collective call.
  std::vector<std::string> all_gather_strings(std::string_view text) const;

  /// Runs the part of a command after which ranks wait for each other: an exception that is not a GroupError is printed
  /// with the name of the rank and ends all ranks, because the others would wait until the timeout. Alone, it is passed
  /// on. So is, once the chief has printed it, a GroupError where a rank was set aside, which does not hear of it
  /// otherwise.
  /// @param command  begins the line that is printed
  /// @param advice   ends it on ranks other than the chief, whose own errors say how to continue
  int run(const char* command, const std::function<int()>& body, const std::string& advice = "") const;

 private:
  void use(std::unique_ptr<MpiCommunicator> communicator);
  void find_sharing();
  void send_heartbeat();

  std::unique_ptr<MpiSession> session_;
  std::shared_ptr<Communicator> communicator_;
  MpiCommunicator* mpi_ = nullptr;           // communicator_, if it is one
  std::shared_ptr<MpiCommunicator> launch_;  // of all ranks, where one was set aside
  // Of the rank aside: what it says to the others.
  std::uint64_t num_heartbeats_ = 0;
  int signal_to_others_ = 0;
  std::chrono::steady_clock::time_point last_heartbeat_ = {};
  double timeout_seconds_;
  int num_sharing_ = 1;
  std::string own_name_ = "rank 0";  // in the launch
};

}  // namespace terngrad
