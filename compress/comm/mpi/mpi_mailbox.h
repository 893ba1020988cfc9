// MpiMailbox: messages between pairs of ranks by MPI. Internal.
#pragma once

#include <memory>

#include "compress/comm/mailbox.h"
#include "compress/comm/mpi/mpi_group.h"

namespace terngrad {

/// A mailbox on a communicator that is its own from here on.
///
/// A message begins with a head of at most a fixed size, which says how much follows and holds it if it fits; the rest
/// follows in pieces, each of which is a sign of life. A receive for the next head of each rank is always posted.
/// @param group  with a fresh communicator, whose errors come back; freed with the mailbox
std::unique_ptr<Mailbox> make_mpi_mailbox(MpiGroup group);

}  // namespace terngrad
