// GradientExchange: local workers' gradients in, one mean gradient out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Bytes of one leg of an exchange over the links of this process's workers, each counted as its own process
/// (compress/exchange/wire_bytes.h): a message that goes to k others counts k times as sent, and once at each that
/// receives it; what a node keeps for itself counts as neither.
struct LegBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;

  LegBytes& operator+=(const LegBytes& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
};

/// What some nodes, workers and servers, moved. Sizes are those of the serialized messages as they travel, headers,
/// scalers and padding included; between GPUs, where there are no messages, those of scalers and of payloads with the
/// padding up to the next one's place. docs/measuring.md says what each exchange moves.
struct ExchangeBytes {
  LegBytes scalers = {};         // sharing of scalers before encoding
  LegBytes gradient = {};        // workers' encoded gradients; where they are added on the way, the sums' all-reduce
  LegBytes mean = {};            // the downlink: aggregated shards; zero where every worker aggregates for itself
  LegBytes servers = {};         // all legs of servers, of their own or beside worker 0
  std::int64_t num_workers = 0;  // whose bytes are in the first three; 0 where nothing is exchanged
  std::int64_t num_servers = 0;  // whose bytes are in `servers`

  LegBytes workers() const {
    return {scalers.sent + gradient.sent + mean.sent, scalers.received + gradient.received + mean.received};
  }
  std::int64_t sent_bytes() const { return workers().sent + servers.sent; }
  std::int64_t received_bytes() const { return workers().received + servers.received; }
  /// Adds those of other nodes, or of another step.
  ExchangeBytes& operator+=(const ExchangeBytes& other) {
    scalers += other.scalers;
    gradient += other.gradient;
    mean += other.mean;
    servers += other.servers;
    num_workers += other.num_workers;
    num_servers += other.num_servers;
    return *this;
  }
};

/// What one exchange did: bytes of this process's nodes, and times.
struct ExchangeReport : ExchangeBytes {
  double measure_seconds = 0;
  double encode_seconds = 0;
  double wire_seconds = 0;  // handing messages over, checksums and taking apart included
  double decode_seconds = 0;
  bool skipped = false;   // a gradient or the mean was not finite and the step is to be dropped everywhere
  std::string nonfinite;  // empty, or which tensor of which worker was not finite, or which tensor's mean overflowed

  /// Adds the bytes and times of another part of the same step, between the same nodes.
  ExchangeReport& operator+=(const ExchangeReport& part) {
    const ExchangeBytes nodes{.num_workers = std::max(num_workers, part.num_workers),
                              .num_servers = std::max(num_servers, part.num_servers)};
    ExchangeBytes::operator+=(part);
    num_workers = nodes.num_workers;
    num_servers = nodes.num_servers;
    measure_seconds += part.measure_seconds;
    encode_seconds += part.encode_seconds;
    wire_seconds += part.wire_seconds;
    decode_seconds += part.decode_seconds;
    return *this;
  }
};

class BucketedExchange;
class FactorState;
class WorkerMemory;

/// The top interface of compression. Every process calls exchange in every step.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// @param gradients  one table per local worker, in order of global worker numbers; elements of 16 bits count as
  ///                   widened to float32
  /// @param mean       out: the mean over all workers in float32, the same bits in every process; holds anything if the
  ///                   step is skipped. May be the gradient of one of the local workers, if that is float32
  /// @param step       the same on all ranks; keys the draws
  /// @throws InvalidArgument for a mean of another type, CommunicationError for a damaged or foreign message,
  /// NonFiniteError if asked to stop on NaN or infinity
  virtual ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                  std::uint64_t step) = 0;

  /// A worker's message of the last step, decoded by itself: for telemetry and tests. Elements of tensor `segment`.
  /// Where workers have a memory, the message is of what that made of the gradient.
  /// @param out  [number of elements of the tensor]
  /// @returns the scaler that its codes are multiples of (the largest, if several), 0 if it was sent as numbers
  /// @throws InvalidArgument if local_worker or segment is out of range, out has another size, or no step has run or
  /// the last one was skipped
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;

  /// The same exchange in parts; nullptr if it takes whole gradients only.
  virtual BucketedExchange* in_buckets() { return nullptr; }

  /// What this process's workers keep from step to step (compress/memory/worker_memory.h); nullptr: nothing.
  virtual WorkerMemory* memory() { return nullptr; }
  /// What all ranks keep alike from step to step (compress/memory/factor_state.h); nullptr: nothing.
  virtual FactorState* factors() { return nullptr; }
};

}  // namespace terngrad
