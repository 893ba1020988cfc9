// Cluster advice: what a step of training takes on a cluster described by a file, for every codec of the file and up to
// 100,000 workers (compress/cost/cluster_model.h), and figure 5 of the paper where the cluster is one of its two.
//
// All functions are deterministic and depend on their arguments alone: nothing is measured.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compress/cost/cluster_model.h"
#include "trainers/commands/cluster_file.h"
#include "trainers/commands/paper_figure.h"

namespace terngrad {

inline constexpr int kMaxAdvisedWorkers = 100'000;

/// The fastest plan of one codec and downlink.
struct AdvisedStep {
  StepPrediction prediction = {};
  bool is_best_of_codec = false;  // of its codec no downlink is faster
  double images_per_second = 0;   // of all workers together
  std::optional<double> over_fp32 =
      {};  // speed-up over the fastest plan of fp32; nothing if the file has no such codec
  std::optional<double> over_bf16 = {};
};

struct AdvisedNet {
  ClusterNet net;
  std::vector<AdvisedStep> steps;  // by workers, then codecs as in the file, then downlinks as in suitable_plans
};

struct ClusterAdvice {
  ClusterFile file;
  std::vector<int> workers;
  std::vector<AdvisedNet> nets;
  std::optional<PaperFigure> figure;  // of a cluster of the paper, by its name
};

/// 1, 2, 4 ... 65,536 and 100,000, those beyond one machine rounded down to whole machines, each once.
std::vector<int> advised_workers(int gpus_per_machine);

/// @throws InvalidArgument that names what is missing for a file without nets or without codecs
ClusterAdvice make_cluster_advice(ClusterFile file);

/// A screen of at most 100 columns: the links and where inputs come from; of each net a line for each number of workers
/// with the gain of each codec, marked where it is extrapolated, and the parts of a step on the whole cluster; the
/// tables of figure 5.
std::string to_text(const ClusterAdvice& advice);

/// All numbers, in bytes and seconds. docs/advise.md says what the fields are.
nlohmann::ordered_json to_json(const ClusterAdvice& advice);

}  // namespace terngrad
