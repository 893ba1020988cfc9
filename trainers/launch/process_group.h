// ProcessGroup: the processes that a launcher started together.
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

/// The ranks of a launch (mpirun, srun), or this single process without a launcher. Rank 0 is the chief: only it
/// reports and writes. The last rank may be split off as the evaluator.
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
  /// Host name of each rank, from MPI; for a single process from the system.
  std::vector<std::string> hosts() const;
  /// "rank 2 on node3".
  std::string name_of(int rank) const;
  /// "node3"; "this host" without a launcher.
  std::string host_of(int rank) const;
  /// Number of ranks of this host with the same processor affinity, this one included.
  int num_sharing_processors() const { return num_sharing_; }

  /// Collective: splits off the last rank of the launch as the evaluator. From now on the group consists of the other
  /// ranks, or on the evaluator of itself alone. @throws InvalidArgument if there is only one rank
  void split_evaluator_rank();
  bool is_evaluator() const;
  /// Evaluator: returns true if the others have entered barrier_with_evaluator. Does not block.
  bool others_have_ended() const;
  /// Barrier of the evaluator and the others; does nothing without an evaluator.
  void barrier_with_evaluator() const;
  /// Evaluator: tells the others that it is alive: by a control message while they train, at most 8 times per timeout,
  /// and by Communicator::send_heartbeat once they wait in barrier_with_evaluator. Does not block.
  void send_launch_heartbeat();
  /// Evaluator: asks the others to stop, because of a signal. Does not block.
  void request_stop(int signal);
  /// Others: the signal of request_stop; 0 for none. Does not block.
  int evaluator_signal() const;
  /// Others: number of the evaluator's heartbeats so far. Does not block.
  std::uint64_t evaluator_heartbeats() const;
  /// Name of the evaluator in the launch: "rank 2 on node3"; empty without an evaluator.
  std::string evaluator_name() const;

  /// Collective: creates a mailbox between the ranks of the group. @throws InvalidArgument for a single process
  std::unique_ptr<Mailbox> make_mailbox() const;

  /// Sets the timeout after which a silent peer counts as failed.
  void set_timeout(double seconds);

  /// Collective: calls `body` on every rank; it may fail on some of them, and must not wait for other ranks.
  /// @throws GroupError on all ranks if `body` threw on any; a single process rethrows the exception itself
  void run_collective(const std::function<void()>& body) const;

  /// Collective: returns the chief's text on every rank.
  std::string broadcast_string(std::string_view text) const;
  /// Collective: returns every rank's text, in the order of ranks.
  std::vector<std::string> all_gather_strings(std::string_view text) const;

  /// Runs the part of a command in which ranks wait for each other. An exception other than GroupError is printed with
  /// the rank's name and ends all ranks, which otherwise would wait until the timeout. A GroupError is printed by the
  /// chief and returned as exit code; with an evaluator, which does not receive it, it ends all ranks. A single process
  /// passes exceptions on.
  /// @param command  begin of the printed line
  /// @param advice   end of the printed line on ranks other than the chief, whose own errors say how to continue
  int run(const char* command, const std::function<int()>& body, const std::string& advice = "") const;

 private:
  void use(std::unique_ptr<MpiCommunicator> communicator);
  void find_sharing();
  void send_heartbeat();

  std::unique_ptr<MpiSession> session_;
  std::shared_ptr<Communicator> communicator_;
  MpiCommunicator* mpi_ = nullptr;           // communicator_, if it is an MpiCommunicator
  std::shared_ptr<MpiCommunicator> launch_;  // all ranks of the launch, if there is an evaluator
  // Evaluator: the content of its control messages.
  std::uint64_t num_heartbeats_ = 0;
  int signal_to_others_ = 0;
  std::chrono::steady_clock::time_point last_heartbeat_ = {};
  double timeout_seconds_;
  int num_sharing_ = 1;
  std::string own_name_ = "rank 0";  // name in the launch
};

}  // namespace terngrad
