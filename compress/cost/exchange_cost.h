// ExchangeCost: what an exchange of gradients takes, as a function of the codec, the workers and the link.
//
// N workers are spread over P processes by worker_range; process p has L_p of them. Each process has its own link
// to all others, full duplex: a round, in which every process sends something to every other one, takes
//
//   latency + B / bandwidth
//
// where B are the bytes that the busiest process sends, or receives if these are more. Floats of a process's workers
// are added before they travel, one sum for each of its R_p subtrees of workers (compress/wire/gradient_transport.h).
// Let S be the bytes of a worker's message of scalers, G those of its encoded gradient except for what is added, H
// those of a sum, g_j and h_j those of shard j of them, and f_j those of shard j of the mean in fp32, headers included.
// With R the sum of R_p, in a round process p sends and receives
//
//   scalers    L_p (P - 1) S                              (N - L_p) S
//   gradient   (P - 1) (L_p G + R_p H)                    (N - L_p) G + (R - R_p) H                 of all_gather
//   shards     sum_{j not of p} (L_p g_j + R_p h_j)       sum_{j of p} ((N - L_p) g_j + (R - R_p) h_j)
//                                                                                                   of scatter_reduce
//   mean       (P - 1) sum_{j of p} f_j                   sum_{j not of p} f_j                      of scatter_reduce
//
// and V is the sum of B over the rounds: 2 of all_gather, 3 of scatter_reduce. integer_sum has the rounds of all_gather
// for tensors whose codes do not add up, and two more for the sum of the lanes, L bytes, of the others: V has
// all_reduce_bytes(L, P) for them. Tensors of low rank take two such exchanges, of one factor and whatever else there
// is, and of the other factor: bytes and rounds add up. With one worker for each process and equal shards, V is (N -
// 1)(S + G), and (N - 1) S + (N - 1) / N (G + F) with F the whole mean; shards are nearly equal
// (compress/exchange/codec_shards.h). The exchange takes
//
//   T = C + rounds latency + V / bandwidth,   C = encode + check + decode
//
// and codec c pays against baseline b where T_c < T_b. With dV = V_b - V_c and dC = C_c - C_b + (rounds_c - rounds_b)
// latency, that is where dV / bandwidth > dC:
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
#include "compress/exchange/exchange_algorithm.h"

namespace terngrad {

/// N workers over P processes.
struct ExchangeWorld {
  int num_workers = 1;
  int num_processes = 1;

  /// The most that a process has: ceil(N / P).
  int num_local_workers() const { return (num_workers + num_processes - 1) / num_processes; }
};

/// Of serialized messages, headers and padding included, up to the next multiple of 8: as they travel one after the
/// other. A worker's message of gradients, and a sum over a subtree of workers, if floats are added; 0 where there is
/// none.
struct GradientSizes {
  std::int64_t of_worker = 0;
  std::int64_t of_sum = 0;

  friend GradientSizes operator+(const GradientSizes& a, const GradientSizes& b) {
    return {a.of_worker + b.of_worker, a.of_sum + b.of_sum};
  }
};

/// Sizes of all messages, counted so.
struct MessageSizes {
  std::int64_t scalers = 0;                          // S
  GradientSizes gradient = {};                       // G, H; of integer_sum those of tensors whose codes do not add up
  std::vector<GradientSizes> shards = {};            // g, h [N] of scatter_reduce
  std::vector<std::int64_t> downlink_payloads = {};  // f [N] of scatter_reduce
  std::int64_t lanes = 0;                            // L of integer_sum
};

/// V above, and how many rounds; none where a process is alone.
struct WireVolume {
  double bytes = 0;
  int rounds = 0;
};

/// @throws InvalidArgument for kAuto, and unless 1 <= num_processes <= num_workers, and
/// there are as many shards as workers where they are needed
WireVolume wire_volume(ExchangeAlgorithm algorithm, const ExchangeWorld& world, const MessageSizes& sizes);

/// How an exchange is called that the transport library makes (compress/exchange/vendor_all_reduce.h).
inline constexpr const char* kVendorExchange = "vendor";

/// One codec's exchange. Seconds are of a process with the most workers, of all of these together.
struct ExchangeCost {
  std::string codec = {};
  std::string exchange = to_string(ExchangeAlgorithm::kAllGather);  // an algorithm, or kVendorExchange
  WireVolume wire = {};
  double moved_bytes = 0;     // over the busiest process's link in its busier direction; V, except for vendor
  double encode_seconds = 0;  // scalers and codes; the downlink's too
  double check_seconds = 0;   // checksums and taking messages apart; a part of ExchangeReport::wire_seconds
  double decode_seconds = 0;  // from messages to the mean
  /// Of each repetition, by the slowest process: C; of kVendorExchange T. Empty where nothing was measured.
  std::vector<double> samples = {};

  /// C above.
  double processor_seconds() const { return encode_seconds + check_seconds + decode_seconds; }
  /// rounds latency + V / bandwidth.
  double link_seconds(const LinkModel& link) const { return link.seconds(wire.rounds, wire.bytes); }
  /// T above.
  double seconds(const LinkModel& link) const { return processor_seconds() + link_seconds(link); }
  /// Between what T lies: the middle half of the samples, on the link within its bounds. Of fewer than two samples
  /// nothing, as one says nothing of how far others are.
  std::optional<Spread> spread(const LinkModel& link, const LinkBounds& bounds) const;
};

/// For which bandwidths one exchange is faster than another, latency being what it is.
struct BreakEven {
  enum class Pays { kAlways, kNever, kBelow, kAbove };
  Pays pays = Pays::kNever;
  double bytes_per_second = 0;  // of kBelow and kAbove

  friend bool operator==(const BreakEven&, const BreakEven&) = default;
};
BreakEven break_even(const ExchangeCost& codec, const ExchangeCost& baseline, double latency_seconds);

/// Which exchange to use: the fastest, if a step takes less than this fraction of its time with the baseline, else the
/// baseline. Measurements do not tell smaller differences apart, and the gradients of fp32, the baseline, are exact.
inline constexpr double kWorthwhile = 0.95;

/// @param costs         of all exchanges that may be used
/// @param baseline      index of the one not to be left without a gain
/// @param rest_seconds  what a step takes besides
/// @returns the index of the one to use. @throws InvalidArgument for a baseline out of range
std::size_t recommend(std::span<const ExchangeCost> costs, std::size_t baseline, const LinkModel& link,
                      double rest_seconds = 0);

}  // namespace terngrad
