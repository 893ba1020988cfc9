// The 120 bars of figure 5 of Wen et al., NIPS 2017, as they were read from its vector drawing, and how far the model
// of paper_clusters.h is from them.
//
// A bar up to 16 GPUs is known to 4 images per second, which is its reading error in the inset; a longer one to 40 on
// Ethernet and 100 on InfiniBand. Two bars, VGG-A in fp32 on 32 and 64 GPUs of Ethernet, are three pixels high and have
// a weight of 0.3 in a fit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compress/cost/paper_clusters.h"

namespace terngrad {

/// The numbers of GPUs that have bars: 1, 2, 4 ... 512.
std::span<const int> paper_gpus();

/// The bars of one net on one cluster with one kind of gradients, one for each of paper_gpus().
struct PaperBars {
  std::string cluster;
  std::string net;
  bool is_ternary = false;
  std::vector<double> images_per_second;
  std::vector<double> weights;  // in a fit

  /// What they are bars of.
  const PaperCodec& codec() const { return is_ternary ? kPaperTernary : kPaperFp32; }
};

/// Of each cluster, and of each of its nets first fp32, then ternary.
const std::vector<PaperBars>& paper_bars();

/// One bar, images per second. @throws InvalidArgument for a cluster, net or number of GPUs that has none
double paper_bar(const std::string& cluster, const std::string& net, bool is_ternary, int num_gpus);

/// The root of the mean over the 60 bars of the cluster's name of w ln(model / bar)^2, in percent.
/// @throws InvalidArgument for a cluster that has no bars
double paper_rms_percent(const PaperCluster& cluster);

}  // namespace terngrad
