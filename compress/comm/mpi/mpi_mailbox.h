// MpiMailbox: messages between pairs of ranks by MPI. Internal.
#pragma once

#include <memory>

#include "compress/comm/mailbox.h"
#include "compress/comm/mpi/mpi_group.h"

namespace terngrad {

/// Makes a mailbox that owns the group's communicator.
///
/// A message begins with a head of limited size, which holds the length of the rest, or the data if they fit; the rest
/// follows in pieces, each of which shows that the peer is alive. A receive for the next head of each rank is always
/// posted.
/// @param group  with a new communicator that returns errors; freed with the mailbox
std::unique_ptr<Mailbox> make_mpi_mailbox(MpiGroup group);

}  // namespace terngrad
