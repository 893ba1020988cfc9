// ExchangeReport: bytes and times of an exchange.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace terngrad {

/// Bytes of one leg (scalers, gradient or mean) of an exchange over the links of this process's workers, each counted
/// as its own process (compress/route/wire_bytes.h). A message to k others counts k times as sent and once at each
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

}  // namespace terngrad
