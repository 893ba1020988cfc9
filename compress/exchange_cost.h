// ExchangeCost: what an exchange of gradients takes, as a function of the codec, the workers and the link.
//
// N workers are spread over P processes by worker_range; process p has L_p of them. Each process has a link of its own
// to all others, full duplex: a round, in which every process sends something to every other one, takes
//
//   latency + B / bandwidth
//
// where B are the bytes that the busiest process sends, or receives if these are more. Let S be the bytes of a worker's
// message of scalers, G those of its encoded gradient, g_j those of share j of it, and f_j those of share j of the mean
// in fp32, headers included. In a round process p sends and receives
//
//   scalers           L_p (P - 1) S                       (N - L_p) S
//   gradient          L_p (P - 1) G                       (N - L_p) G             of all_gather
//   shares            L_p sum_{j not of p} g_j            (N - L_p) sum_{j of p} g_j   of scatter_reduce
//   mean              (P - 1) sum_{j of p} f_j            sum_{j not of p} f_j    of scatter_reduce
//
// and V is the sum of B over the R rounds: 2 of all_gather, 3 of scatter_reduce. With one worker for each process and
// equal shares, V is (N - 1)(S + G), and (N - 1) S + (N - 1) / N (G + F) with F the whole mean; shares are nearly equal
// (compress/codec_shares.h). The exchange takes
//
//   T = C + R latency + V / bandwidth,   C = encode + check + decode
//
// and codec c pays against baseline b where T_c < T_b. With dV = V_b - V_c and dC = C_c - C_b + (R_c - R_b) latency,
// that is where dV / bandwidth > dC:
//
//   dV > 0, dC > 0    below the bandwidth dV / dC
//   dV >= 0, dC < 0   always (also dV > 0, dC = 0)
//   dV < 0, dC < 0    above the bandwidth dV / dC: it sends more but works less
//   otherwise         never
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compress/compressed_all_reduce.h"
#include "compress/link_model.h"

namespace terngrad {

/// N workers over P processes.
struct ExchangeWorld {
  int num_workers = 1;
  int num_processes = 1;

  /// The most that a process has: ceil(N / P).
  int num_local_workers() const { return (num_workers + num_processes - 1) / num_processes; }
};

/// Sizes of serialized messages, headers and padding included.
struct MessageSizes {
  std::int64_t scalers = 0;                    // S
  std::int64_t gradient = 0;                   // G; of no interest to scatter_reduce, as the others to all_gather
  std::vector<std::int64_t> shares = {};       // g [N]
  std::vector<std::int64_t> mean_shares = {};  // f [N]
};

/// V and R above.
struct WireVolume {
  double bytes = 0;
  int rounds = 0;
};

/// @throws InvalidArgument unless algorithm is all_gather or scatter_reduce, 1 <= num_processes <= num_workers, and
/// there are as many shares as workers where they are needed
WireVolume wire_volume(ExchangeAlgorithm algorithm, const ExchangeWorld& world, const MessageSizes& sizes);

/// How an exchange is called that the transport library makes (compress/vendor_all_reduce.h).
inline constexpr const char* kVendorExchange = "vendor";

/// One codec's exchange. Seconds are of a process with the most workers, of all of these together.
struct ExchangeCost {
  std::string codec = {};
  std::string exchange = to_string(ExchangeAlgorithm::kAllGather);  // an algorithm, or kVendorExchange
  WireVolume wire = {};
  double encode_seconds = 0;  // scalers and codes; the return leg's too
  double check_seconds = 0;   // checksums and taking messages apart; a part of ExchangeReport::wire_seconds
  double decode_seconds = 0;  // from messages to the mean

  /// C above.
  double processor_seconds() const { return encode_seconds + check_seconds + decode_seconds; }
  /// R latency + V / bandwidth.
  double link_seconds(const LinkModel& link) const { return link.seconds(wire.rounds, wire.bytes); }
  /// T above.
  double seconds(const LinkModel& link) const { return processor_seconds() + link_seconds(link); }
};

/// For which bandwidths one exchange is faster than another, latency being what it is.
struct BreakEven {
  enum class Pays { kAlways, kNever, kBelow, kAbove };
  Pays pays = Pays::kNever;
  double bytes_per_second = 0;  // of kBelow and kAbove

  friend bool operator==(const BreakEven&, const BreakEven&) = default;
};
BreakEven break_even(const ExchangeCost& codec, const ExchangeCost& baseline, double latency_seconds);

/// Which exchange to use: the fastest, if it takes less than this fraction of the baseline's time, else the baseline.
/// Measurements do not tell smaller differences apart, and the gradients of fp32, the baseline, are exact.
inline constexpr double kWorthwhile = 0.95;

/// @param costs     of all exchanges that may be used
/// @param baseline  index of the one not to be left without a gain
/// @returns the index of the one to use. @throws InvalidArgument for a baseline out of range
std::size_t recommend(std::span<const ExchangeCost> costs, std::size_t baseline, const LinkModel& link);

}  // namespace terngrad
