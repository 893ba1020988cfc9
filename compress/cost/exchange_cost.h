// ExchangeCost: time of a gradient exchange, as a function of the codec, the workers and the link.
//
// N workers are spread over P processes by worker_range; process p has L_p of them. Each process has its own
// full-duplex link to all others. A round, in which every process sends something to every other one, takes
//
//   latency + B / bandwidth
//
// where B is the number of bytes that the busiest process sends, or receives if that is more. Floats of a process's
// workers are added before they travel, one sum per subtree; process p has R_p subtrees
// (compress/wire/gradient_transport.h). Let S be the bytes of a worker's message of scalers, G those of its encoded
// gradient without the added tensors, H those of a sum, g_j and h_j those of shard j of them, and f_j those of shard j
// of the mean in fp32, headers included. With R the sum of R_p, process p sends (left) and receives (right) in a round
//
//   scalers    L_p (P - 1) S                              (N - L_p) S
//   gradient   (P - 1) (L_p G + R_p H)                    (N - L_p) G + (R - R_p) H                 of all_gather
//   shards     sum_{j not of p} (L_p g_j + R_p h_j)       sum_{j of p} ((N - L_p) g_j + (R - R_p) h_j)
//                                                                                                   of scatter_reduce
//   mean       (P - 1) sum_{j of p} f_j                   sum_{j not of p} f_j                      of scatter_reduce
//
// and V is the sum of B over the rounds: 2 for all_gather, 3 for scatter_reduce. integer_sum has the rounds of
// all_gather for tensors whose codes cannot be summed, and two more for the sum of the lanes, L bytes, of the others,
// which add all_reduce_bytes(L, P) to V. Low-rank tensors take two such exchanges, one per factor, the first with all
// other tensors too: bytes and rounds add up. With one worker per process and equal shards, V is (N - 1) (S + G) for
// all_gather, and (N - 1) S + (N - 1) / N (G + F) for scatter_reduce, with F the whole mean; shards are nearly equal
// (compress/route/codec_shards.h). The exchange takes
//
//   T = C + rounds latency + V / bandwidth,   C = encode + check + decode
//
// and codec c is faster than baseline b if T_c < T_b. With dV = V_b - V_c and dC = C_c - C_b + (rounds_c - rounds_b)
// latency, that is the case if dV / bandwidth > dC:
//
//   dV > 0, dC > 0    below the bandwidth dV / dC
//   dV >= 0, dC < 0   always (also dV > 0, dC = 0)
//   dV < 0, dC < 0    above the bandwidth dV / dC: it sends more but works less
//   otherwise         never
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/cost/link_model.h"
#include "compress/cost/spread.h"
#include "compress/plan/exchange_choices.h"

namespace terngrad {

/// N workers over P processes.
struct ExchangeWorld {
  int num_workers = 1;
  int num_processes = 1;

  /// Maximum number of workers of a process: ceil(N / P).
  int num_local_workers() const { return (num_workers + num_processes - 1) / num_processes; }
};

/// Sizes of a worker's gradient message, and of a message with the sum over a subtree of workers (0 if no floats are
/// added). Serialized, with headers, rounded up to a multiple of 8 bytes.
struct GradientSizes {
  std::int64_t of_worker = 0;
  std::int64_t of_sum = 0;

  friend GradientSizes operator+(const GradientSizes& a, const GradientSizes& b) {
    return {a.of_worker + b.of_worker, a.of_sum + b.of_sum};
  }
};

/// Sizes of all messages, rounded up likewise.
struct MessageSizes {
  std::int64_t scalers = 0;                          // S
  GradientSizes gradient = {};                       // G, H; integer_sum: for tensors whose codes cannot be summed
  std::vector<GradientSizes> shards = {};            // g, h [N] for scatter_reduce
  std::vector<std::int64_t> downlink_payloads = {};  // f [N] for scatter_reduce
  std::int64_t lanes = 0;                            // L for integer_sum
};

/// V above, and the number of rounds; both 0 for a single process.
struct WireVolume {
  double bytes = 0;
  int rounds = 0;
};

/// @throws InvalidArgument for kAuto, unless 1 <= num_processes <= num_workers, and if scatter_reduce does not get N
/// shards
WireVolume wire_volume(ExchangeAlgorithm algorithm, const ExchangeWorld& world, const MessageSizes& sizes);

/// Name of the exchange by the MPI library's all-reduce (compress/exchange/vendor_round.h).
inline constexpr const char* kVendorExchange = "vendor";

/// Cost of one codec's exchange. Seconds are those of a process with the most workers, for all of its workers together.
struct ExchangeCost {
  std::string codec = {};
  std::string exchange = word_of(ExchangeAlgorithm::kAllGather);  // name of an algorithm, or kVendorExchange
  int workers_per_group = 1;  // above 1: groups of so many workers exchange as one worker each
  WireVolume wire = {};
  double moved_bytes = 0;     // over the busiest process's link in its busier direction; equals V unless is_timed_whole
  double encode_seconds = 0;  // scalers and codes, including the downlink's
  double check_seconds = 0;   // checksums and parsing of messages; a part of ExchangeReport::wire_seconds
  double decode_seconds = 0;  // aggregation of messages to the mean
  /// Per repetition, for the slowest process: C, or T if is_timed_whole. Empty if nothing was measured.
  std::vector<double> samples = {};

  /// True if V was not counted but follows from the time that a whole exchange took (compress/cost/link_probe.h).
  bool is_timed_whole() const { return exchange == kVendorExchange || workers_per_group > 1; }
  /// C above.
  double processor_seconds() const { return encode_seconds + check_seconds + decode_seconds; }
  /// rounds latency + V / bandwidth.
  double link_seconds(const LinkModel& link) const { return link.seconds(wire.rounds, wire.bytes); }
  /// T above.
  double seconds(const LinkModel& link) const { return processor_seconds() + link_seconds(link); }
  /// Range of T: middle half of the samples, with the link within its bounds. None for fewer than two samples, which
  /// say nothing about the spread.
  std::optional<Spread> spread(const LinkModel& link, const LinkBounds& bounds) const;
};

/// Bandwidths for which one exchange is faster than another, at a given latency.
struct BreakEven {
  enum class Pays { kAlways, kNever, kBelow, kAbove };
  Pays pays = Pays::kNever;
  double bytes_per_second = 0;  // threshold, for kBelow and kAbove

  friend bool operator==(const BreakEven&, const BreakEven&) = default;
};
BreakEven break_even(const ExchangeCost& codec, const ExchangeCost& baseline, double latency_seconds);

/// Threshold of `recommend`: a codec must reduce the time of a step below this fraction of the baseline's. Smaller
/// differences are within measurement error, and the baseline's fp32 gradients are exact.
inline constexpr double kWorthwhile = 0.95;

/// The exchange with the fastest step, or the baseline if no other one passes kWorthwhile.
/// @param costs         candidates
/// @param baseline      index of the default exchange
/// @param rest_seconds  time of a step without the exchange
/// @returns an index into costs. @throws InvalidArgument for a baseline out of range
std::size_t recommend(std::span<const ExchangeCost> costs, std::size_t baseline, const LinkModel& link,
                      double rest_seconds = 0);

}  // namespace terngrad
