// Figure 5 of Wen et al., NIPS 2017, of one of its two clusters: the paper's bars beside the fitted model, the gain of
// ternary gradients, and what is left of it with the bytes that a downlink really takes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compress/cost/paper_bars.h"
#include "compress/cost/paper_clusters.h"

namespace terngrad {

/// Bars, and images per second of the model at each of them.
struct ModelledBars {
  PaperBars bars;
  std::vector<double> model;
};

/// Images per second of ternary gradients over those of fp32.
struct PaperGain {
  std::string net;
  int num_gpus = 0;
  double chart = 0;  // of the bars
  double model = 0;
};

struct PaperFigure {
  PaperCluster cluster;
  std::vector<ModelledBars> bars;        // 60 in six rows
  double rms_percent = 0;                // paper_rms_percent
  std::vector<PaperGain> gains;          // of each net on kGainGpus
  std::vector<DownlinkRow> by_downlink;  // on all GPUs
};

/// @throws InvalidArgument for a cluster without bars
PaperFigure make_paper_figure(const PaperCluster& cluster);

/// Three tables, at most 100 characters wide, and what their numbers are.
std::string to_text(const PaperFigure& figure);

/// docs/advise.md says what the fields are.
nlohmann::ordered_json to_json(const PaperFigure& figure);

}  // namespace terngrad
