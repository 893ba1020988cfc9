// The two clusters of figure 5 of Wen et al., NIPS 2017, and what their bars say that training takes on them.
//
// The paper prints the bars and says which machines they are of, but not the bandwidths reached, the latency, the time
// of a step, or the cost of ternarizing. This model has them as constants that were fitted to the bars. On g = i j
// GPUs, j of each of i machines, a step takes, and K examples of each GPU make
//
//   T = T1 + E + 2 (j - 1) / j b / Cg + [i > 1] (b / Ch + f(i) b / Cn + 2 (i - 1) a)     images per second = K g / T
//
//   T1   a step of one GPU, of each net           Cg   bandwidth between the GPUs of a machine
//   E    ternarizing: P / r; 0 of fp32, bf16      Ch   between a GPU and its machine's network card
//   b    bytes of a message, the mean of both     Cn   of the network, a its latency
//        directions, see message_bytes            f    how often a message crosses it, see NetworkFactor
//
// The fit minimizes the sum of w ln(model / bar)^2 over the 60 bars of a cluster, with w = 0.3 for the two bars of (a),
// VGG-A in fp32 on 32 and 64 GPUs, that are three pixels high, and w = 1 for the others. The root of that sum over 60
// is 1.86 % on (a), 0.98 % on (b). The best fits with other factors f are worse: 4.7 % on (a) with a ring's, 8.7 %
// and 1.9 % on (a) and (b) with log2 i, as the formula is reported elsewhere; on (a) times do not grow beyond four
// machines. AlexNet's bars need 256 examples for each GPU, while 128 are reported to be stated: its images per second
// depend on that, ratios of them do not.
//
// All functions are deterministic and depend on their arguments alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terngrad {

/// A net of the figure.
struct PaperNet {
  std::string name;
  std::int64_t parameters = 0;  // P
  std::int64_t last_layer = 0;  // L of these, which travel as floats
  int examples_per_gpu = 0;     // K
};

/// "alexnet", "googlenet", "vgg_a", as the figure has them.
const std::vector<PaperNet>& paper_nets();
/// @throws InvalidArgument for another name
const PaperNet& paper_net(const std::string& name);

/// f: how often a message crosses the network of i machines.
enum class NetworkFactor : std::uint8_t {
  kLog2UpToTwo,  // min(log2 i, 2): does not grow beyond four machines
  kRing,         // 2 (i - 1) / i
};
/// @throws InvalidArgument unless num_machines is 1 or more
double network_factor(NetworkFactor factor, int num_machines);

/// A cluster of the figure. Bandwidths are in bytes per second, in one direction.
struct PaperCluster {
  std::string name;
  std::string figure;                // the part of figure 5: "a", "b"
  int num_machines = 0;              // at most; i
  int gpus_per_machine = 0;          // j, where there is more than one machine
  std::vector<double> step_seconds;  // T1 of each of paper_nets()
  double gpu_bandwidth = 0;          // Cg
  double host_bandwidth = 0;         // Ch
  double network_bandwidth = 0;      // Cn
  double latency_seconds = 0;        // a
  double ternarized_per_second = 0;  // r, elements
  NetworkFactor factor = NetworkFactor::kRing;

  int num_gpus() const { return num_machines * gpus_per_machine; }
};

/// "paper-ethernet": (a), GTX 1080 on a PCI switch, 1 Gbit/s. "paper-infiniband": (b), P100 with NVLink, 100 Gbit/s.
const std::vector<PaperCluster>& paper_clusters();
/// The cluster of that name; null if there is none.
const PaperCluster* find_paper_cluster(const std::string& name);

/// Bits of an element on its way.
struct PaperCodec {
  double uplink_bits = 32;
  double downlink_bits = 32;
  double last_layer_bits = 32;  // of the last layer, in both directions
  bool ternarizes = false;      // E counts
};
inline constexpr PaperCodec kPaperFp32{32, 32, 32, false};
inline constexpr PaperCodec kPaperBf16{16, 16, 16, false};
/// What the figure counts: 2 bits in both directions.
inline constexpr PaperCodec kPaperTernary{2, 2, 32, true};

/// b = (P - L) (uplink + downlink bits) / 16 + L last_layer_bits / 8, bytes.
double message_bytes(const PaperNet& net, const PaperCodec& codec);

/// The terms of T, seconds.
struct PaperStep {
  double compute = 0;    // T1
  double ternarize = 0;  // E
  double gpu = 0;        // Cg's
  double host = 0;       // Ch's
  double network = 0;    // Cn's
  double latency = 0;    // a's

  /// T.
  double seconds() const { return compute + ternarize + gpu + host + network + latency; }
};

/// @param num_gpus  g: at most those of one machine, or of several whole machines of the cluster
/// @throws InvalidArgument for others, or a net that is none of paper_nets()
PaperStep paper_step(const PaperCluster& cluster, const PaperNet& net, const PaperCodec& codec, int num_gpus);

/// Images per second, K g / T. @throws InvalidArgument as paper_step
double paper_throughput(const PaperCluster& cluster, const PaperNet& net, const PaperCodec& codec, int num_gpus);

/// T of the baseline over T of the codec. @throws InvalidArgument as paper_step
double paper_speed_up(const PaperCluster& cluster, const PaperNet& net, const PaperCodec& codec,
                      const PaperCodec& baseline, int num_gpus);

/// By how much a net's training is faster than with each kind of floats.
struct DownlinkSpeedUp {
  double over_fp32 = 0;
  double over_bf16 = 0;
};

/// The uplink in 2 bits, and a downlink.
struct DownlinkRow {
  std::string downlink;  // "t2", "lanes", "bf16", "fp32"
  double downlink_bits = 0;
  std::vector<DownlinkSpeedUp> speed_ups;  // of each of paper_nets()
};

/// The same cluster with what a downlink really takes: "t2", 2 bits, which the figure counts, needs a mean that is
/// ternarized again, and the paper does not do that; "lanes", ceil(log2(2 g + 1)) bits, has sums of g codes without
/// padding; "bf16" and "fp32" have the mean. The last layer is fp32, that of the bf16 baseline bf16.
/// @throws InvalidArgument as paper_step
std::vector<DownlinkRow> speed_ups_by_downlink(const PaperCluster& cluster, int num_gpus);

}  // namespace terngrad
