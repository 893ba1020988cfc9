#include "trainers/commands/eval_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/mpi/mpi_session.h"
#include "datasets/sets/first_examples.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/device_net.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/launched_command.h"
#include "trainers/evaluate/evaluate.h"
#include "trainers/evaluate/evaluation_log.h"
#include "trainers/evaluate/follow_run.h"
#include "trainers/evaluate/predictions.h"
#include "trainers/hooks/net_state.h"
#include "trainers/io/folder.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/out_of_memory.h"
#include "trainers/launch/stop_signal.h"
#include "trainers/loop/data_fingerprint.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/recorded_data.h"

namespace terngrad {
namespace {

struct EvalOptions {
  std::string checkpoint_dir;
  std::string checkpoint;
  std::string dataset;
  std::string data_dir;
  std::string subset = "test";
  std::int64_t num_examples = 0;
  bool restore_avg_var = true;
  double eval_interval_secs = 0;
  bool run_once = false;
  std::string eval_dir;
  std::string predictions;
  std::string device = "auto";
  std::string math = "auto";
  int threads = 0;
  int num_preprocess_threads = 0;
  std::int64_t batch_size = EvaluationOptions{}.batch_size;
  // Checked against the checkpoint and its run; empty or 0: not checked.
  std::string net;
  int image_size = 0;
  std::int64_t max_steps = 0;
};

void declare(OptionSet& options, EvalOptions& o) {
  options.group("What to evaluate");
  options.add("checkpoint_dir", &o.checkpoint_dir, "run directory; its newest checkpoint is taken");
  options.add("checkpoint", &o.checkpoint, "one checkpoint file, instead of --checkpoint_dir");
  options.add_flag("restore_avg_var", &o.restore_avg_var, "evaluate the averaged weights; =false: the raw ones");
  options.group("Data");
  std::vector<std::string> names = dataset_names();
  options
      .add("dataset", &o.dataset, "data set; empty: the one the checkpoint was trained on",
           text_where(fmt::format("one of {}", fmt::join(names, ", ")),
                      [names](const std::string& name) {
                        return name.empty() || std::ranges::find(names, name) != names.end();
                      }))
      .alias("dataset_name");
  options.add("data_dir", &o.data_dir, "folder with the data set's files; empty: the run's, as its config.json says");
  options.add("subset", &o.subset, "which part of it", one_of({"train", "test"}));
  options.add("num_examples", &o.num_examples, "evaluate the first n examples only; 0: all", at_least(0));
  options.add("net", &o.net, "the checkpoint's net; another one is refused");
  options.add("image_size", &o.image_size, "height and width of the checkpoint's images; 0: not checked", at_least(0));
  options.group("Run");
  options.add("max_steps", &o.max_steps, "last step of the run; 0: not checked", at_least(0))
      .needs("--checkpoint_dir", [&o] { return !o.checkpoint_dir.empty(); });
  options.add("eval_interval_secs", &o.eval_interval_secs,
              "follow the run: look for a new checkpoint this often, until its last step; 0: evaluate once",
              at_least(0));
  options.add_flag("run_once", &o.run_once, "evaluate once; what happens without --eval_interval_secs anyway");
  options.add("eval_dir", &o.eval_dir,
              "folder to add results to (metrics.jsonl and TensorBoard events); empty: eval in --checkpoint_dir when "
              "following, else none");
  options.add("predictions", &o.predictions,
              "file for the predicted class of every example, in order of the data set: a NumPy array of int32; an old "
              "one is replaced",
              text_where("a file name that ends in .npy",
                         [](const std::string& name) { return name.empty() || name.ends_with(".npy"); }));
  options.add("device", &o.device, "where to compute; auto: on a GPU if there is one, else on the CPU",
              one_of({"auto", "cpu", "cuda"}));
  options
      .add("math", &o.math,
           "products of nets on a GPU: tf32 rounds factors for tensor cores, fp32 does not; auto: as the run was "
           "trained",
           one_of({"auto", "tf32", "fp32"}))
      .needs("a GPU (--device cuda)", [&o] { return !choose_devices(o.device, {}, o.math).is_cpu(); });
  options.add("threads", &o.threads, "threads; 0: all of the machine", at_least(0));
  options.add("num_preprocess_threads", &o.num_preprocess_threads,
              "threads that read examples; 0: as many as --threads", at_least(0));
  options.add("batch_size", &o.batch_size, "examples that are evaluated at once", in_range(1, 1 << 20));
  // Options of the TernGrad authors' program that are refused here; docs/options.md has the whole list.
  for (const char* name : {"preprocessing", "label_offset"}) options.refuse(name, "the checkpoint says it");
  for (const char* name : {"num_readers", "input_queue_memory_factor"}) {
    options.refuse(name, "every example is read once, in order; no queue shuffles them");
  }
  options.refuse("tower", "workers share one copy of the parameters");
}

void check(const OptionSet& options, const EvalOptions& o) {
  choose_devices(o.device, {}, o.math);  // refuses a missing device before anything is read
  options.require_needs();
  if (o.checkpoint.empty() == o.checkpoint_dir.empty()) {
    throw UsageError("give exactly one of --checkpoint_dir (a run directory) and --checkpoint (a file)");
  }
  if (o.eval_interval_secs > 0 && o.run_once) {
    TERNGRAD_THROW(UsageError, "--run_once: contradicts --eval_interval_secs ", o.eval_interval_secs,
                   ", which follows the run; give one of them");
  }
  if (options.was_set("run_once") && !o.run_once && o.eval_interval_secs == 0) {
    throw UsageError("--run_once=false: following a run needs --eval_interval_secs, the seconds between two looks");
  }
  if (o.eval_interval_secs > 0 && o.checkpoint_dir.empty()) {
    throw UsageError("--eval_interval_secs: needs --checkpoint_dir, the run to follow; --checkpoint is one file");
  }
  if (o.eval_interval_secs > 0 && !o.predictions.empty()) {
    TERNGRAD_THROW(UsageError, "--predictions ", o.predictions,
                   ": holds those of one checkpoint, --eval_interval_secs ", o.eval_interval_secs,
                   " follows a run of several; evaluate once");
  }
  check_output_file("predictions", o.predictions);
}

std::string weights_group(const EvalOptions& o) { return o.restore_avg_var ? "ema" : "parameters"; }

std::string dataset_name(const EvalOptions& o, const Checkpoint& checkpoint) {
  if (!o.dataset.empty()) return o.dataset;
  const std::string& name = checkpoint.state().dataset;
  if (name.ends_with(kConstantImagesSuffix)) {
    TERNGRAD_THROW(UsageError, "checkpoint '", checkpoint.source(),
                   "' is of a run with --benchmark_mode, trained on constant images, which have no test set; give "
                   "--dataset to evaluate it on another (one of ",
                   fmt::format("{}", fmt::join(dataset_names(), ", ")), ")");
  }
  return name;
}

int num_threads(const EvalOptions& o) { return o.threads == 0 ? num_hardware_threads() : o.threads; }
int num_reading_threads(const EvalOptions& o) {
  return o.num_preprocess_threads == 0 ? num_threads(o) : o.num_preprocess_threads;
}

/// @throws UsageError if --net is not the checkpoint's, or --max_steps not the last step of its run
void require_run(const EvalOptions& o, const Checkpoint& checkpoint) {
  const CheckpointState& state = checkpoint.state();
  if (!o.net.empty() && o.net != state.net) {
    TERNGRAD_THROW(UsageError, "--net ", o.net, ": checkpoint '", checkpoint.source(), "' is of net ", state.net);
  }
  if (o.max_steps == 0) return;
  const std::optional<std::uint64_t> last = last_step_of_run(o.checkpoint_dir);
  if (last == static_cast<std::uint64_t>(o.max_steps)) return;
  TERNGRAD_THROW(UsageError, "--max_steps ", o.max_steps, ": the run in '", o.checkpoint_dir,
                 last ? "' has max_steps " + std::to_string(*last) : "' has no config.json to compare it with");
}

/// --data_dir, or by default the data folder of the checkpoint's run.
std::string data_dir_of(const EvalOptions& o, const Checkpoint& checkpoint, const std::string& dataset) {
  if (!o.data_dir.empty() || is_built_in(dataset)) return o.data_dir;
  const std::string must = "--data_dir: must name the folder with the files of data set " + dataset;
  const std::optional<RecordedData> run = recorded_data(std::filesystem::path(checkpoint.source()).parent_path());
  if (!run || run->dataset != dataset || run->data_dir.empty()) throw UsageError(must);
  if (run->data_shards) {
    TERNGRAD_THROW(UsageError, must, "; the run's processes had shards of it below '", run->data_dir, "'");
  }
  if (std::error_code ignored; !std::filesystem::is_directory(run->data_dir, ignored)) {
    TERNGRAD_THROW(UsageError, must, "; the run's, '", run->data_dir, "', is not a folder here");
  }
  return run->data_dir;
}

/// Opens the data set of `checkpoint`.
std::unique_ptr<Dataset> open_dataset(const EvalOptions& o, const Checkpoint& checkpoint) {
  const std::string name = dataset_name(o, checkpoint);
  if (is_built_in(name) && !o.data_dir.empty()) {
    TERNGRAD_THROW(UsageError, "--data_dir: has no effect here; it needs a data set with files, ", name,
                   " is built in");
  }
  DatasetOptions options;
  options.data_dir = data_dir_of(o, checkpoint, name);
  options.subset = o.subset == "train" ? Subset::kTrain : Subset::kTest;
  const auto image_size = checkpoint.state().extra_metadata.find("image_size");
  if (image_size != checkpoint.state().extra_metadata.end()) options.image_size = std::atoi(image_size->second.c_str());
  const auto preprocessing = checkpoint.state().extra_metadata.find("preprocessing");
  if (preprocessing != checkpoint.state().extra_metadata.end()) options.preprocessing = preprocessing->second;
  // For --subset train: images as the run saw them. Runs from before this option existed were augmented.
  const auto augment = checkpoint.state().extra_metadata.find("augment");
  const bool is_off = augment != checkpoint.state().extra_metadata.end() && augment->second == "off";
  options.augment = !(can_augment(name) && is_off);
  const auto label_offset = checkpoint.state().extra_metadata.find("label_offset");
  if (is_of_records(name) && label_offset != checkpoint.state().extra_metadata.end()) {
    options.label_offset = std::atoi(label_offset->second.c_str());
  }
  options.num_threads = num_reading_threads(o);
  std::unique_ptr<Dataset> dataset =
      say_when_out_of_memory("opening data set " + name, [&] { return make_dataset(name, options); });
  if (o.image_size != 0 && (o.image_size != dataset->height() || o.image_size != dataset->width())) {
    TERNGRAD_THROW(UsageError, "--image_size ", o.image_size, ": the images of checkpoint '", checkpoint.source(),
                   "' are ", dataset->height(), "x", dataset->width());
  }
  if (o.num_examples == 0) return dataset;
  if (o.num_examples > dataset->num_examples()) {
    TERNGRAD_THROW(UsageError, "--num_examples ", o.num_examples, ": ", name, " ", o.subset, " has ",
                   dataset->num_examples(), " examples; accepted: 0 (all) to ", dataset->num_examples());
  }
  return first_examples(std::move(dataset), o.num_examples);
}

/// The math mode: --math, or for auto that of the run if it was trained on a GPU, else fp32.
std::string math_of(const EvalOptions& o, const Checkpoint& checkpoint) {
  if (o.math != "auto") return o.math;
  const auto recorded = checkpoint.state().extra_metadata.find("math");
  return recorded != checkpoint.state().extra_metadata.end() ? recorded->second : "fp32";
}

/// Creates a net, on the first GPU of `choice` if it has any.
std::unique_ptr<Net> make_net_on(const TrainDevices& choice, const std::string& name, const ImageShape& shape,
                                 int num_classes, const NetOptions& options) {
  if (choice.is_cpu()) return make_net(name, shape, num_classes, options);
  return make_device_net(name, shape, num_classes, options, choice.math, Stream(choice.gpus[0]));
}

/// @param predicted  see evaluate
Evaluation evaluate_checkpoint(const EvalOptions& o, const Checkpoint& checkpoint, const Dataset& dataset,
                               const std::function<void()>& send_heartbeat, std::span<std::int32_t> predicted) {
  NetOptions net_options;
  net_options.threads_per_worker = num_threads(o);
  net_options.num_threads = num_threads(o);
  const std::unique_ptr<Net> net =
      make_net_on(choose_devices(o.device, {}, math_of(o, checkpoint)), checkpoint.state().net,
                  {dataset.height(), dataset.width(), dataset.channels()}, dataset.num_classes(), net_options);
  Buffer<float> parameters(net->layout().flat_elements());
  checkpoint.read_group(weights_group(o), net->layout(), parameters.span());
  const Buffer<float> state = load_evaluation_state(checkpoint, *net, o.restore_avg_var);
  return evaluate(*net, parameters.span(), state.span(), dataset,
                  {.num_threads = num_reading_threads(o),
                   .batch_size = o.batch_size,
                   .between = send_heartbeat,
                   .predicted = predicted});
}

/// Evaluates checkpoints of one run, which share a data set, and writes an EvaluationLog if there is a folder for it.
class Evaluator {
 public:
  /// @param log_directory  called once, at the first checkpoint; returns an empty path for no log
  Evaluator(const EvalOptions& o, std::function<std::filesystem::path()> log_directory,
            std::function<void()> send_heartbeat = {})
      : o_(o), log_directory_(std::move(log_directory)), send_heartbeat_(std::move(send_heartbeat)) {}

  /// True if the data set and the log (if any) are open.
  bool is_prepared() const { return dataset_ != nullptr; }
  /// True if the log has the checkpoint's result.
  bool has_result(const Checkpoint& checkpoint) {
    if (!dataset_) prepare(checkpoint);
    return log_ && log_->find(checkpoint.state().step, checkpoint.checksum()) != nullptr;
  }

  /// Evaluates and prints the result, and writes predictions if requested. Without predictions, a result in the log is
  /// not computed again.
  void run(const Checkpoint& checkpoint) {
    require_run(o_, checkpoint);
    if (!dataset_) prepare(checkpoint);
    const std::uint64_t step = checkpoint.state().step;
    const Evaluation* known = log_ ? log_->find(step, checkpoint.checksum()) : nullptr;
    const bool predicts = !o_.predictions.empty();
    if (known != nullptr) {
      std::cerr << "step " << step << " is evaluated already, its result is in " << log_->path().string()
                << (predicts ? "; it is evaluated again for its predictions" : "") << std::endl;
    }
    std::vector<std::int32_t> predicted(predicts ? static_cast<std::size_t>(dataset_->num_examples()) : 0);
    const Evaluation evaluation =
        known != nullptr && !predicts ? *known : say_when_out_of_memory("evaluating " + checkpoint.source(), [&] {
          return evaluate_checkpoint(o_, checkpoint, *dataset_, send_heartbeat_, predicted);
        });
    if (log_ && known == nullptr) log_->write(step, checkpoint.checksum(), evaluation);
    if (predicts) write_predictions(o_.predictions, predicted);
    std::cout << checkpoint.source() << ": step " << step << ", " << weights_group(o_) << " weights, "
              << dataset_name(o_, checkpoint) << " " << o_.subset << ", loss " << evaluation.loss << "\n"
              << to_string(evaluation) << std::endl;
  }

 private:
  void prepare(const Checkpoint& checkpoint) {
    std::unique_ptr<Dataset> dataset = open_dataset(o_, checkpoint);
    if (const std::filesystem::path directory = log_directory_(); !directory.empty()) {
      log_.emplace(directory, EvaluationSubject{.dataset = dataset_name(o_, checkpoint),
                                                .subset = o_.subset,
                                                .weights = weights_group(o_),
                                                .num_examples = dataset->num_examples(),
                                                .data_fingerprint = data_fingerprint(*dataset)});
    }
    dataset_ = std::move(dataset);  // last: it marks the preparation as complete
  }

  const EvalOptions& o_;
  std::function<std::filesystem::path()> log_directory_;
  std::function<void()> send_heartbeat_;
  std::unique_ptr<Dataset> dataset_;
  std::optional<EvaluationLog> log_;
};

void evaluate_once(const EvalOptions& o) {
  Evaluator evaluator(o, [&] { return o.eval_dir; });
  if (!o.checkpoint.empty()) {
    evaluator.run(load_checkpoint(o.checkpoint));
    return;
  }
  const std::optional<Checkpoint> newest = load_newest_checkpoint(o.checkpoint_dir);
  if (!newest) TERNGRAD_THROW(DataError, "no checkpoint in ", o.checkpoint_dir);
  evaluator.run(*newest);
}

/// @returns the exit code
int follow(const EvalOptions& o) {
  const std::filesystem::path run = o.checkpoint_dir;
  Evaluator evaluator(o, [&] { return o.eval_dir.empty() ? run / "eval" : std::filesystem::path(o.eval_dir); });
  StopSignal stop;
  const bool is_finished = follow_run(
      run, [&](const Checkpoint& checkpoint) { evaluator.run(checkpoint); },
      [&] { return stop.wait(o.eval_interval_secs); }, std::cerr);
  if (is_finished) return kExitSuccess;
  std::cerr << "stopped before the run's last step was evaluated" << std::endl;
  return kExitSignal + stop.received();
}

}  // namespace

struct RunEvaluator::Parts {
  FollowedRun run;
  std::function<void(const std::string& what)> problem;
  std::shared_ptr<std::optional<Folder>> folder;    // run directory, once it exists
  std::function<void(const Checkpoint&)> evaluate;  // evaluates a checkpoint unless the log has its result
  std::function<bool()> is_prepared;                // see Evaluator::is_prepared
  std::set<std::uint64_t> ended = {};               // steps whose checkpoints are done
  std::set<std::string> told = {};

  void tell(const std::exception& error) {
    if (told.insert(error.what()).second) problem(error.what());
  }
};

RunEvaluator::RunEvaluator(FollowedRun run, std::function<void(const std::string& what)> problem,
                           std::function<void()> send_heartbeat) {
  const auto options = std::make_shared<EvalOptions>();
  options->checkpoint_dir = run.directory.string();
  options->data_dir = run.data_dir;
  options->threads = run.threads;
  options->device = "cpu";
  const auto folder = std::make_shared<std::optional<Folder>>();
  const auto evaluator = std::make_shared<Evaluator>(
      *options, [folder] { return (*folder)->path() / "eval"; }, std::move(send_heartbeat));
  const auto evaluate = [options, evaluator](const Checkpoint& checkpoint) {
    if (!evaluator->has_result(checkpoint)) evaluator->run(checkpoint);
  };
  parts_.reset(new Parts{.run = std::move(run),
                         .problem = std::move(problem),
                         .folder = folder,
                         .evaluate = evaluate,
                         .is_prepared = [evaluator] { return evaluator->is_prepared(); }});
}
RunEvaluator::~RunEvaluator() = default;

bool RunEvaluator::look(const std::function<bool()>& is_over) { return look_at(Which::kAll, is_over); }

bool RunEvaluator::look_at_newest() { return look_at(Which::kNewest, {}); }

bool RunEvaluator::look_at(Which which, const std::function<bool()>& is_over) {
  std::vector<CheckpointFile> files;
  try {
    std::optional<Folder>& folder = *parts_->folder;
    if (!folder && std::filesystem::exists(parts_->run.directory)) folder.emplace(parts_->run.directory);
    if (folder) files = list_checkpoints(*folder);
  } catch (const DataError& error) {
    parts_->tell(error);
    return false;
  }
  if (which == Which::kNewest && files.size() > 1) files.erase(files.begin(), files.end() - 1);
  bool all_are_done = true;
  for (const CheckpointFile& file : files) {
    if (parts_->ended.contains(file.step)) continue;
    if (is_over && is_over()) return all_are_done;
    bool is_loaded = false;
    try {
      const std::optional<Checkpoint> checkpoint = load_if_there(file.path);
      is_loaded = true;
      if (checkpoint) parts_->evaluate(*checkpoint);
      parts_->ended.insert(file.step);
    } catch (const std::exception& error) {
      parts_->tell(error);
      all_are_done = false;
      // Without data set or log, no other checkpoint can be evaluated either.
      if (is_loaded && !parts_->is_prepared()) return false;
    }
  }
  return all_are_done;
}

int run_eval(int argc, char** argv) {
  if (const int size = launched_rank().size; size > 1) {
    TERNGRAD_THROW(UsageError, "a launcher started ", size,
                   " processes; terngrad_eval evaluates in one: start it without a launcher, or give terngrad_train "
                   "--last_rank_evaluates");
  }
  EvalOptions o;
  OptionSet options(
      "terngrad_eval: evaluates a checkpoint, or each new one of a run; its last line is the result.\n"
      "Example: terngrad_eval --checkpoint_dir runs/ternary");
  declare(options, o);
  const ParseResult parsed = options.parse(argc, argv);
  if (answer_questions("terngrad_eval", options, parsed)) return 0;
  check(options, o);
  if (o.eval_interval_secs > 0) return follow(o);
  evaluate_once(o);
  return kExitSuccess;
}

}  // namespace terngrad
