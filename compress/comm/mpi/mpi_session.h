// MpiSession: initializes MPI in this process.
#pragma once

#include <string>

namespace terngrad {

/// True if an MPI launcher (mpirun, srun with PMIx or PMI) started this process, according to the environment variables
/// that it sets. Does not call MPI.
bool is_launched_by_mpi();

/// Rank and size according to the launcher, before MPI is initialized; rank 0 of 1 without a launcher.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
};
LaunchedRank launched_rank();

/// True if this build has MPI.
bool has_mpi();
/// Name and version of the library, e.g. "Open MPI v4.1.4"; empty in a build without MPI. Needs no MpiSession.
std::string mpi_version();

/// Initializes MPI and finalizes it when destroyed; for calls by one thread at a time. At most one per process.
class MpiSession {
 public:
  /// @throws NotSupported in a build without MPI, CommunicationError if MPI cannot be initialized
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// Finalizes MPI; waits for the other ranks to do so too.
  ~MpiSession();

  /// Ends the processes of all ranks at once, for a rank that fails while others wait for it.
  [[noreturn]] static void abort(int exit_code);
};

}  // namespace terngrad
