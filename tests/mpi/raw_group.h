// MPI groups for tests of the classes that use one, or of raw MPI messages beside them.
#pragma once

#include <mpi.h>

#include <string>

#include "compress/comm/mpi/mpi_group.h"

namespace terngrad::testing {

/// All ranks, on their own communicator that returns errors. Hosts are named host0, host1, ...
inline MpiGroup make_raw_group(double timeout_seconds = 60, std::size_t chunk_bytes = 1 << 20) {
  MpiGroup group;
  group.timeout_seconds = timeout_seconds;
  group.chunk_bytes = chunk_bytes;
  MPI_Comm_dup(MPI_COMM_WORLD, &group.communicator);
  MPI_Comm_set_errhandler(group.communicator, MPI_ERRORS_RETURN);
  MPI_Comm_rank(group.communicator, &group.rank);
  MPI_Comm_size(group.communicator, &group.size);
  for (int peer = 0; peer < group.size; ++peer) group.hosts.push_back("host" + std::to_string(peer));
  return group;
}

}  // namespace terngrad::testing
