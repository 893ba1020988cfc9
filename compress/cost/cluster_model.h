// ClusterModel: what a step of training takes on a cluster that may not be there, as a function of its links, the net,
// the codec and the exchange.
//
// N workers, one for each GPU, are spread over machines of g GPUs. A step takes
//
//   T = S(N) C + E + X + D + U      S(N) = 1 + v e(N)
//
//   C   computing gradients         S   the slowest of N workers: v is the deviation of a worker's C over its mean,
//   E   encoding                        e(N) the expected maximum of N standard normal numbers
//   D   decoding                    X   exchange, as far as the backward pass does not hide it
//   U   updating
//
// The exchange between m participants over links of latency a and bandwidth B, where a message has up bytes on the
// uplink and down bytes on the downlink, b = (up + down) / 2 is their mean:
//
//   ring               2 (m - 1) a + 2 (m - 1) / m b / B      reduce-scatter, then all-gather
//   halving_doubling   2 log2(m) a + 2 (m - 1) / m b / B      the same with partners at distances 1, 2, 4 ...
//   tree               2 log2(m) a + 2 b / B                  pipelined
//   all_gather         (m - 1) (a + up / B)                   every message to everyone, no downlink
//   servers            2 a + max(m / servers, 1) 2 b / B      a server's link, full duplex, and no less than a worker's
//
// In one machine the participants are its GPUs, on the gpu link. Of several machines they are
//
//   flat         all workers, on the network link; machines are neighbours, so that a ring and a tree cross a machine's
//                link once, while of the others the g workers of a machine share it
//   two levels   a ring of the g GPUs of each machine, on the gpu link, then the machines, on the network link
//
// and what passes between GPUs and network also takes 2 a + b / B of the host link (full duplex; of all_gather the
// downlink is what arrives). The bisection factor is the part of B that is left to halving_doubling, all_gather and
// servers, whose messages all cross the middle of the network; servers of one machine share its link. Ternary
// codecs agree on a scaler for each tensor first: a tree with messages of 4 bytes a tensor, over the same levels.
//
// Buckets of a gradient are exchanged one after the other while the backward pass continues: bucket k, which is ready
// at ready_k and whose exchange takes x_k, ends at
//
//   end_k = max(end_(k-1), ready_k) + x_k        X = end_last - end of the backward pass
//
// The model leaves out congestion besides the bisection factor, adding up in transit, and the variance of codes. Inputs
// are as good as where they come from, and each result says of each whether it was measured, given or assumed. All
// functions are deterministic and depend on their arguments alone; times are in seconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compress/cost/link_model.h"

namespace terngrad {

/// Where a number comes from.
enum class InputSource : std::uint8_t {
  kMeasured,  // on the machines in question
  kGiven,     // by who makes or runs them, or it follows from the layout of the net
  kAssumed,   // by nobody who has seen them; also fitted to what is only said about them
};
/// "measured", "given", "assumed".
const char* to_string(InputSource source);

template <class Value>
struct Sourced {
  Value value = {};
  InputSource source = InputSource::kAssumed;
};

/// Seconds as a function of an amount of work, which has the unit that its user says.
struct LinearTime {
  double fixed_seconds = 0;
  double seconds_per_unit = 0;

  /// No less than 0.
  double seconds(double units) const;
};
struct TimePoint {
  double units = 0;
  double seconds = 0;
};
/// The line through two points; of one point the line through it and the origin.
/// @throws InvalidArgument for another number of points, units that are not above 0 and growing, or seconds that are
/// below 0 or shrink
LinearTime line_through(std::span<const TimePoint> points);

/// Machines of GPUs, and what joins them.
struct Cluster {
  std::string name = {};
  int num_machines = 1;
  int gpus_per_machine = 1;
  Sourced<LinkModel> gpu = {kNoLink};         // between the GPUs of a machine
  Sourced<LinkModel> host = {kNoLink};        // between them and the network
  Sourced<LinkModel> network = {kNoLink};     // of a machine to all others
  Sourced<double> bisection_factor = {1};     // above 0, at most 1
  Sourced<double> straggler_deviation = {0};  // v
  int measured_workers = 1;                   // the most workers that the inputs were observed with

  int num_workers() const { return num_machines * gpus_per_machine; }
};

/// Beyond that many times the measured workers a result is extrapolated.
inline constexpr int kTrustedFactor = 4;
bool is_extrapolated(const Cluster& cluster, int num_workers);

/// Tensors that are exchanged together.
struct GradientBucket {
  std::int64_t elements = 0;        // of all its tensors
  std::int64_t plain_elements = 0;  // of these, in tensors that a ternary codec leaves as fp32
  int num_tensors = 0;              // that need a scaler
  double ready_fraction = 1;        // of the backward pass after which it is ready; above 0, at most 1
};

/// What is trained. Times are of one worker.
struct ClusterNet {
  std::string name = {};
  std::vector<GradientBucket> buckets = {};  // in the order of the backward pass
  double examples_per_worker = 0;
  Sourced<LinearTime> compute = {};                 // of examples: forward and backward pass, C
  Sourced<double> backward_fraction = {2.0 / 3.0};  // of C, its last part; counts where buckets overlap
  Sourced<LinearTime> update = {};                  // of elements, U

  std::int64_t num_elements() const;
  /// Whether a bucket is ready before the backward pass ends.
  bool overlaps() const;
};

/// A codec of the uplink and what it costs.
struct CodecWork {
  std::string codec = {};           // one of bits_per_element
  Sourced<LinearTime> encode = {};  // of elements
  Sourced<LinearTime> decode = {};  // of elements, in one message
};

enum class ClusterExchange : std::uint8_t { kRing, kHalvingDoubling, kTree, kAllGather, kServers };
/// "ring", "halving_doubling", "tree", "all_gather", "servers".
const char* to_string(ClusterExchange exchange);

/// How gradients are exchanged.
struct ClusterPlan {
  ClusterExchange exchange = ClusterExchange::kRing;
  bool two_levels = false;
  std::string downlink = "fp32";  // one of bits_per_element; empty of all_gather, which has none
  int num_servers = 1;            // of servers
};

/// "ring", "two_levels/ring".
std::string name_of(const ClusterPlan& plan);

/// The fraction of codes other than zero of a Gaussian gradient that is clipped at 2.5 standard deviations.
inline constexpr double kGaussianNonzeroFraction = 0.318;

/// Bits that a codec takes for an element: fp32 32, bf16 16, t2 2, t5 1.6, tmask 1 + p, trans H(p) + p + 0.03, where p
/// is nonzero_fraction and H(p) = -p log2 p - (1 - p) log2(1 - p); lanes, which hold sums of num_workers codes, 64 /
/// floor(64 / ceil(log2(2 N + 1))).
/// @throws InvalidArgument for another name, num_workers below 1, or nonzero_fraction outside [0, 1]
double bits_per_element(const std::string& codec, int num_workers, double nonzero_fraction = kGaussianNonzeroFraction);

/// e(N): the integral of 1 - F(x)^N over x > 0, less that of F(x)^N over x < 0, with F the distribution of the standard
/// normal; by Simpson's rule, to 1e-9 for N up to 10^12. @throws InvalidArgument unless num_normals is 1 or more
double expected_max_of_normals(std::int64_t num_normals);

/// S(N). @throws InvalidArgument for a deviation below 0 or not finite, or num_workers below 1
double straggler_factor(double deviation, int num_workers);

/// Of a message, bytes in each direction.
struct DirectionBytes {
  double up = 0;
  double down = 0;
};

/// The table above; 0 of one participant. `down` is not looked at by kAllGather, `num_servers` by kServers alone.
/// @throws InvalidArgument for num_participants or num_servers below 1
double exchange_seconds(ClusterExchange exchange, int num_participants, const LinkModel& link,
                        const DirectionBytes& bytes, int num_servers = 1);

/// A bucket's exchange. Times are since the step began.
struct BucketTime {
  double ready = 0;
  double seconds = 0;
};
/// X. @param buckets  in the order of their exchange, which `ready` need not have; of none 0
/// @throws InvalidArgument for one that is ready after the backward pass, or takes less than no time
double exposed_seconds(std::span<const BucketTime> buckets, double backward_end);

/// The terms of an exchange, of all buckets, in seconds.
struct ExchangeTerms {
  double scalers = 0;
  double inside = 0;  // of the machines: the gpu link
  double host = 0;
  double network = 0;

  double seconds() const { return scalers + inside + host + network; }
};

/// The terms of T.
struct StepParts {
  double straggler_factor = 1;  // S(N)
  double compute = 0;           // C
  double encode = 0;            // E
  ExchangeTerms exchange = {};  // with what is hidden
  double exposed_exchange = 0;  // X
  double decode = 0;            // D
  double update = 0;            // U

  /// T.
  double seconds() const { return straggler_factor * compute + encode + exposed_exchange + decode + update; }
};

/// An input that a result depends on.
struct NamedInput {
  std::string name;
  InputSource source;
};

struct StepPrediction {
  std::string exchange;  // name_of the plan
  std::string uplink;
  std::string downlink;  // empty of all_gather
  int num_workers = 1;
  DirectionBytes message = {};  // of a worker and step, without scalers
  StepParts parts = {};
  std::vector<NamedInput> inputs = {};
  bool extrapolated = false;

  double seconds() const { return parts.seconds(); }
};

/// T of a step of `num_workers` workers, which may be more than the cluster has: it counts as a larger one of the same
/// kind. Workers fill one machine in part, or several whole ones. E and U are of all elements; D of all_gather of a
/// message from each participant, of servers of the messages that a server gets and of the mean, else of the mean.
/// Elements of `plain_elements` travel as fp32, of a bf16 uplink as bf16.
/// @throws InvalidArgument for numbers out of the ranges above, bandwidths that are not above 0, workers that fill
/// machines in part, a net without elements, an all_gather of lanes or with a downlink, an exchange that lacks one
StepPrediction predict_step(const Cluster& cluster, const ClusterNet& net, const CodecWork& work,
                            const ClusterPlan& plan, int num_workers,
                            const Sourced<double>& nonzero_fraction = {kGaussianNonzeroFraction});

/// The plans that suit a codec. Floats, and lanes, add up in transit: ring, halving_doubling and tree, with the same
/// downlink. Ternary codes do not: all_gather; as many servers as machines (in one machine as workers) with downlinks
/// fp32, bf16 and the codec itself, for which the mean is ternarized again. On several machines of several GPUs each of
/// these flat and then in two levels, for which ternary codecs code the sum of a machine again.
/// @throws InvalidArgument as bits_per_element, or for num_workers that predict_step does not take
std::vector<ClusterPlan> suitable_plans(const Cluster& cluster, const std::string& codec, int num_workers);

}  // namespace terngrad
