// MpiSession: the Message Passing Interface in this process.
#pragma once

#include <string>

namespace terngrad {

/// Whether a launcher of MPI (mpirun, srun with PMIx or PMI) started this process: by the variables that it sets for
/// each rank. Asks nothing of MPI.
bool is_launched_by_mpi();

/// What the launcher says of this process before MPI is asked; 0 of 1 without a launcher.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
};
LaunchedRank launched_rank();

/// Whether this build has MPI.
bool has_mpi();
/// What the library calls itself, e.g. "Open MPI v4.1.4"; empty in a build without MPI. Needs no MpiSession.
std::string mpi_version();

/// MPI from its initialization to its end, for calls by one thread at a time. At most one in the life of a process.
class MpiSession {
 public:
  /// @throws NotSupported in a build without MPI, CommunicationError if MPI cannot be initialized
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// Ends MPI; waits for the other ranks to do so too.
  ~MpiSession();

  /// Ends every rank's process at once: the way out for a rank that fails while others wait for it.
  [[noreturn]] static void abort(int exit_code);
};

}  // namespace terngrad
