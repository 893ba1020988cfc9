#include "trainers/eval_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/errors.h"
#include "trainers/checkpoint.h"
#include "trainers/evaluate.h"
#include "trainers/net_state.h"
#include "trainers/options.h"
#include "version.h"

namespace terngrad {
namespace {

struct EvalOptions {
  std::string checkpoint_dir;
  std::string checkpoint;
  std::string dataset;
  std::string data_dir;
  std::string subset = "test";
  bool restore_avg_var = true;
  int threads = 0;
};

void declare(OptionSet& options, EvalOptions& o) {
  options.group("What to evaluate");
  options.add("checkpoint_dir", &o.checkpoint_dir, "run directory; its newest checkpoint is taken");
  options.add("checkpoint", &o.checkpoint, "one checkpoint file, instead of --checkpoint_dir");
  options.add_flag("restore_avg_var", &o.restore_avg_var, "evaluate the averaged weights; =false: the raw ones");
  options.group("Data");
  std::vector<std::string> names = dataset_names();
  options.add("dataset", &o.dataset, "data set; empty: the one the checkpoint was trained on",
              text_where(fmt::format("one of {}", fmt::join(names, ", ")), [names](const std::string& name) {
                return name.empty() || std::ranges::find(names, name) != names.end();
              }));
  options.alias("dataset_name", "dataset");
  options.add("data_dir", &o.data_dir, "folder with the data set's files");
  options.add("subset", &o.subset, "which part of it", one_of({"train", "test"}));
  options.group("Run");
  options.add("threads", &o.threads, "threads; 0: all of the machine", at_least(0));
}

std::filesystem::path checkpoint_to_load(const EvalOptions& o) {
  if (!o.checkpoint.empty()) return o.checkpoint;
  const auto latest = latest_checkpoint(o.checkpoint_dir);
  if (!latest) TERNGRAD_THROW(DataError, "no checkpoint in ", o.checkpoint_dir);
  return latest->path;
}

}  // namespace

int run_eval(int argc, char** argv) {
  EvalOptions o;
  OptionSet options(
      "terngrad_eval: evaluates a checkpoint; its last line is the result.\n"
      "Example: terngrad_eval --checkpoint_dir runs/quickstart");
  declare(options, o);
  const ParseResult parsed = options.parse(argc, argv);
  if (parsed.help_requested) {
    std::cout << options.help();
    return 0;
  }
  if (parsed.version_requested) {
    std::cout << "terngrad_eval " << kVersion << " (" << kCommit << ")\n";
    return 0;
  }
  if (o.checkpoint.empty() == o.checkpoint_dir.empty()) {
    throw UsageError("give exactly one of --checkpoint_dir (a run directory) and --checkpoint (a file)");
  }
  const Checkpoint checkpoint = load_checkpoint(checkpoint_to_load(o));
  const std::string dataset_name = o.dataset.empty() ? checkpoint.state().dataset : o.dataset;
  if (dataset_name == "synthetic" && !o.data_dir.empty()) {
    throw UsageError("--data_dir: has no effect here; it needs a data set with files, synthetic is built in");
  }
  if (dataset_name != "synthetic" && o.data_dir.empty()) {
    throw UsageError("--data_dir: must name the folder with the files of data set " + dataset_name);
  }
  const int threads = o.threads == 0 ? num_hardware_threads() : o.threads;
  DatasetOptions dataset_options;
  dataset_options.data_dir = o.data_dir;
  dataset_options.subset = o.subset == "train" ? Subset::kTrain : Subset::kTest;
  const auto image_size = checkpoint.state().more.find("image_size");
  if (image_size != checkpoint.state().more.end()) dataset_options.image_size = std::atoi(image_size->second.c_str());
  dataset_options.num_threads = threads;
  const std::unique_ptr<Dataset> dataset = make_dataset(dataset_name, dataset_options);
  NetOptions net_options;
  net_options.threads_per_worker = threads;
  net_options.num_threads = threads;
  const std::unique_ptr<Net> net =
      make_net(checkpoint.state().net, {dataset->height(), dataset->width(), dataset->channels()},
               dataset->num_classes(), net_options);
  const std::string group = o.restore_avg_var ? "ema" : "parameters";
  Buffer<float> parameters(net->layout().flat_elements());
  checkpoint.read_group(group, net->layout(), parameters.span());
  const Buffer<float> state = load_evaluation_state(checkpoint, *net, o.restore_avg_var);
  const Evaluation evaluation = evaluate(*net, parameters.span(), state.span(), *dataset, threads);
  std::cout << checkpoint.source() << ": step " << checkpoint.state().step << ", " << group << " weights, "
            << dataset_name << " " << o.subset << ", loss " << evaluation.loss << "\n"
            << to_string(evaluation) << "\n";
  return 0;
}

}  // namespace terngrad
