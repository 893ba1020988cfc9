// Mailbox: messages between pairs of processes.
#pragma once

#include <span>

#include "compress/comm/communicator.h"

namespace terngrad {

/// A rank's place for messages of any size from and to the other ranks of a group, whenever they are sent: unlike the
/// operations of a Communicator they need no agreement on an order. Between two ranks messages come in the order in
/// which they were sent. Failures throw CommunicationError and leave the mailbox unusable.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends a message and returns at once; it travels while this rank is in a call of the mailbox.
  /// @param to       another rank
  /// @param message  at most kMaxParcels parcels, as one message
  /// @throws InvalidArgument for more parcels, or for no other rank
  virtual void send(int to, Parcels message) = 0;

  /// Waits for the next message of any rank, in the order in which they came in.
  /// @param awaited  ranks of which at least one owes a message. One of them from which nothing has come for longer
  ///                 than the timeout has failed, whatever comes from others; the clock begins anew with what it is
  ///                 sent, and does not count time that this rank spent elsewhere
  /// @param message  out
  /// @returns who sent it
  /// @throws CommunicationError naming the ranks that have failed
  virtual int receive(std::span<const int> awaited, Parcels& message) = 0;

  /// Returns once all that was sent is on its way without this rank.
  /// @throws CommunicationError naming the ranks that do not take what they were sent, after the timeout
  virtual void flush() = 0;

  /// Tells ranks that await this one that it is busy, not lost, as Communicator::send_heartbeat: for work between two
  /// calls that may take longer than the timeout. Cheap: may be called as often as is convenient.
  virtual void send_heartbeat() {}

  static constexpr std::size_t kMaxParcels = 256;
};

}  // namespace terngrad
