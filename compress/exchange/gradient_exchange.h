// GradientExchange: local workers' gradients in, one mean gradient out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Bytes of one leg (scalers, gradient or mean) of an exchange over the links of this process's workers, each counted
/// as its own process (compress/exchange/wire_bytes.h). A message to k others counts k times as sent and once at each
/// receiver; data that stay within a node are not counted.
struct LegBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;

  LegBytes& operator+=(const LegBytes& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
};

/// Bytes that some nodes (workers and servers) moved. Sizes are those of serialized messages, with headers, scalers and
/// padding; between GPUs, which send no messages, those of scalers and of payloads padded to the next payload's offset.
/// docs/measuring.md says what each exchange moves.
struct ExchangeBytes {
  LegBytes scalers = {};         // sharing of scalers before encoding
  LegBytes gradient = {};        // workers' encoded gradients; with integer_sum also the all-reduce of lanes
  LegBytes mean = {};            // downlink of aggregated shards; zero if every worker aggregates for itself
  LegBytes servers = {};         // all legs of servers, whether processes of their own or beside worker 0
  std::int64_t num_workers = 0;  // workers counted in the first three; 0 if nothing is exchanged
  std::int64_t num_servers = 0;  // servers counted in `servers`

  LegBytes workers() const {
    return {scalers.sent + gradient.sent + mean.sent, scalers.received + gradient.received + mean.received};
  }
  std::int64_t sent_bytes() const { return workers().sent + servers.sent; }
  std::int64_t received_bytes() const { return workers().received + servers.received; }
  /// Adds the bytes of another part of the same step, between the same nodes.
  void add_part(const ExchangeBytes& part) {
    const std::int64_t workers_before = num_workers;
    const std::int64_t servers_before = num_servers;
    *this += part;
    num_workers = std::max(workers_before, part.num_workers);
    num_servers = std::max(servers_before, part.num_servers);
  }
  /// Adds the bytes of other nodes, or of another step.
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

/// Result of one exchange: bytes of this process's nodes, and times.
struct ExchangeReport : ExchangeBytes {
  double measure_seconds = 0;
  double encode_seconds = 0;
  double wire_seconds = 0;  // sending and receiving, with checksums and parsing of messages
  double decode_seconds = 0;
  bool skipped = false;        // a gradient or the mean was not finite, and all ranks must drop the step
  std::string nonfinite = {};  // empty, or names the non-finite tensor and its worker, or the tensor whose mean
                               // overflowed

  /// Adds the bytes and times of another part of the same step, between the same nodes.
  ExchangeReport& operator+=(const ExchangeReport& part) {
    add_part(part);
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

/// Top-level interface of compression. Every process calls exchange in every step.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// @param gradients  one table per local worker, in order of global worker numbers; 16-bit elements are widened to
  ///                   float32
  /// @param mean       out: mean over all workers in float32, the same bits in every process; unspecified if the step
  ///                   is skipped. May be the gradient of a local worker if that is float32
  /// @param step       the same on all ranks; keys the random draws
  /// @throws InvalidArgument for a mean of another type, CommunicationError for a damaged or foreign message,
  /// NonFiniteError with OnNonfinite::kStop for NaN or infinity
  virtual ExchangeReport exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                  std::uint64_t step) = 0;

  /// Decodes tensor `segment` of a local worker's message of the last step, for telemetry and tests. With a memory, the
  /// message encodes the compensated gradient.
  /// @param out  [number of elements of the tensor]
  /// @returns the scaler that its codes are multiples of (the largest, if several); 0 if it was sent as floating-point
  /// numbers
  /// @throws InvalidArgument if local_worker or segment is out of range, out has another size, no step has run, or the
  /// last step was skipped
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;

  /// Interface for exchanging the gradient in buckets; nullptr if only whole gradients are supported.
  virtual BucketedExchange* in_buckets() { return nullptr; }

  /// State of this process's workers from step to step (compress/memory/worker_memory.h); nullptr if there is none.
  virtual WorkerMemory* memory() { return nullptr; }
  /// State that is equal on all ranks (compress/memory/factor_state.h); nullptr if there is none.
  virtual FactorState* factors() { return nullptr; }
};

}  // namespace terngrad
