// Mailbox: messages between pairs of processes.
#pragma once

#include <span>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Messages of any size between this rank and the other ranks of a group. Unlike the operations of a Communicator, they
/// need no agreed order. Messages between two ranks arrive in the order in which they were sent. Failures throw
/// CommunicationError and leave the mailbox unusable.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Queues a message and returns at once; it is transferred during later calls of this rank's mailbox.
  /// @param to       another rank
  /// @param message  at most kMaxParcels parcels, sent as one message
  /// @throws InvalidArgument for more parcels, or if `to` is this rank or out of range
  virtual void send(int to, Parcels message) = 0;

  /// Waits for the next message from any rank, in order of arrival.
  /// @param awaited  ranks of which at least one will send a message. Throws if one of them is silent for longer than
  ///                 the timeout, even if others send. Its clock restarts when it is sent a message, and excludes time
  ///                 that this rank spent elsewhere
  /// @param message  out
  /// @returns the sender
  /// @throws CommunicationError naming the ranks that have failed
  virtual int receive(std::span<const int> awaited, Parcels& message) = 0;

  /// Returns once all sent messages can complete without further calls of this rank.
  /// @throws CommunicationError after the timeout, naming the ranks that do not receive their messages
  virtual void flush() = 0;

  /// Tells waiting ranks that this one is busy, not lost, as Communicator::send_heartbeat: for work between two calls
  /// that may exceed the timeout. Cheap; may be called often.
  virtual void send_heartbeat() {}

  static constexpr std::size_t kMaxParcels = 256;
};

}  // namespace terngrad
