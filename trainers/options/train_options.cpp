#include "trainers/options/train_options.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "compress/plan/codec_presets.h"
#include "datasets/dataset.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/loop/floating_epochs.h"
#include "trainers/optim/optimizer.h"
#include "trainers/options/async_options.h"
#include "trainers/options/codec_choice.h"
#include "trainers/options/codec_list.h"
#include "trainers/options/device_choice.h"
#include "trainers/options/option_set.h"
#include "trainers/options/step_list.h"

namespace terngrad {
namespace {

/// What a data set brings: its net and the recipe that goes with it (reference: the original's run scripts).
struct Defaults {
  const char* net;
  const char* image_size;
  const char* batch_size;
  const char* max_steps;
  const char* optimizer;
  const char* initial_learning_rate;
  const char* learning_rate_decay_type;
  const char* weight_decay;
  const char* learning_rate_boundaries = "";  // of the schedule steps
  const char* preprocessing = "auto";
  const char* ema_decay = "0.9999";
};

const std::map<std::string, Defaults>& dataset_defaults() {
  static const std::map<std::string, Defaults> table = {
      {"cifar10", {"cifar10_alexnet", "24", "128", "300000", "adam", "0.0002", "fixed", "0.004"}},
      {"synthetic", {"lenet", "28", "64", "3000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"synthetic224", {"resnet_18", "224", "64", "1000", "momentum", "0.05", "polynomial", "0.0001", "", "auto", "0"}},
      {"mnist", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      // Data of the user's own: what suits depends on the data, so these are only where to begin.
      {"folder", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"npy", {"lenet", "0", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"records", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"flowers", {"lenet", "28", "64", "10000", "momentum", "0.01", "polynomial", "0.0005"}},
      {"imagenet", {"alexnet", "224", "256", "370000", "momentum", "0.01", "exponential", "0.0005"}},
  };
  return table;
}

/// Recipes of nets of which another is known than that of the data set: residual nets on CIFAR-10 as He et al., CVPR
/// 2016, section 4.2; on ImageNet 90 epochs of 256, a tenth after 30 and 60, as torchvision's; GoogLeNet as the
/// original's script, and Inception v3, for which it has none, alike; the GoogLeNet of 2014 as Caffe's. Averaged
/// weights of 10,000 steps do not go with a residual net's batch norms, whose statistics are those of the newest
/// weights.
const std::map<std::pair<std::string, std::string>, Defaults>& net_defaults() {
  static const std::map<std::pair<std::string, std::string>, Defaults> table = [] {
    std::map<std::pair<std::string, std::string>, Defaults> rows;
    rows[{"imagenet", "googlenet"}] = {"googlenet", "224",  "128",        "600000",
                                       "momentum",  "0.04", "polynomial", "0.00004"};
    rows[{"imagenet", "inception_v3"}] = {"inception_v3", "299",  "128",        "600000",
                                          "momentum",     "0.04", "polynomial", "0.00004"};
    rows[{"imagenet", "googlenet_2014"}] = {"googlenet_2014", "224",  "32",         "2400000",
                                            "momentum",       "0.01", "polynomial", "0.0002"};
    for (const char* net : {"resnet_18", "resnet_50"}) {
      rows[{"imagenet", net}] = {net,     "224",    "256",           "450000", "momentum", "0.1",
                                 "steps", "0.0001", "150000,300000", "auto",   "0"};
    }
    for (const char* net : {"resnet_20", "resnet_56", "resnet_18_cifar"}) {
      rows[{"cifar10", net}] = {net,     "32",     "128",         "64000",  "momentum", "0.1",
                                "steps", "0.0001", "32000,48000", "padded", "0"};
    }
    return rows;
  }();
  return table;
}

template <class Value>
Value pick(const std::string& name, std::initializer_list<std::pair<const char*, Value>> choices) {
  for (const auto& [text, value] : choices) {
    if (name == text) return value;
  }
  TERNGRAD_THROW(UsageError, "unknown value '", name, "'");
}

/// Options of the original that cannot be honoured here; docs/options.md has the whole list.
void refuse_options_of_the_original(OptionSet& options) {
  options.refuse("subset", "training takes the training subset; terngrad_eval has --subset train|test");
  options.refuse("log_device_placement", "there is no graph to place; the first log line says what runs where");
  options.refuse("pretrained_model_checkpoint_path",
                 "use --init_from FILE to begin with another run's parameters, or --resume to resume a run");
  options.refuse("use_encoding", "messages are always encoded; there is no mode without");
  options.refuse("save_tower", "workers share one copy of the parameters, which is what a checkpoint holds");
  for (const char* name : {"job_name", "ps_hosts", "worker_hosts", "task_id", "num_replicas_to_aggregate"}) {
    options.refuse(name,
                   "a launcher starts the processes of a run on its hosts: mpirun -np P terngrad_train --num_nodes N");
  }
  options.refuse("save_interval_secs", "checkpoints are counted in steps, so that runs can be repeated: --save_iter");
  options.refuse("save_summaries_secs", "reports are counted in steps, so that runs can be repeated: --log_steps");
}

}  // namespace

std::string TrainOptions::codec_name() const {
  if (codec == "fp16") return codec;
  return expand_preset(parse_codec_spec(codec_spec()), codec_presets()).spec.name;
}

std::string TrainOptions::codec_spec() const {
  if (codec != "auto") return codec;
  switch (grad_bits) {
    case 32:
      return "fp32";
    case 16:
      return "bf16";
    case 1:
      return "ternary";
    default:
      return "qsgd:bits=" + std::to_string(grad_bits);
  }
}

std::string TrainOptions::strategy_name() const {
  if (strategy != "auto") return strategy;
  return num_nodes == 1 && codec_name() == "fp32" && codec_for.empty() ? "simple" : "replicated";
}

bool TrainOptions::exchanges_on_host() const {
  const bool servers_do_more = strategy == "ps" && (num_servers > 0 || pull == "parameters");
  return is_async(*this) || servers_do_more || exchange == "vendor";
}

bool uses_ternary(const TrainOptions& o) { return std::ranges::any_of(chosen_codecs(o), &ChosenCodec::is_ternary); }

bool host_waits_for_sizes(const TrainOptions& o) {
  return std::ranges::any_of(chosen_codecs(o), [](const ChosenCodec& c) {
    return !c.codec->traits().fixed_size && !c.codec->traits().self_delimiting;
  });
}

std::string buckets_unsupported_reason(const TrainOptions& o) {
  if (o.strategy_name() == "simple") return "--strategy replicated: simple exchanges nothing";
  if (is_async(o)) return "--strategy replicated or ps: async pushes whole gradients";
  if (o.exchange == "vendor") return "an --exchange other than vendor, which takes the whole gradient";
  if (!std::ranges::all_of(chosen_codecs(o), [](const ChosenCodec& c) { return c.codec->traits().per_tensor; })) {
    return "another --scaler_scope than model, whose scaler takes all tensors";
  }
  if (o.clip_by_global_norm > 0) return "a run without --clip_by_global_norm, which takes the norm of all tensors";
  if (o.pulls_parameters()) return "--pull gradient: an update cannot be taken back if a later tensor is not finite";
  return "";
}

std::string overlap_unsupported_reason(const TrainOptions& o) {
  std::string buckets = buckets_unsupported_reason(o);
  if (!buckets.empty() || devices_of(o).is_cpu_run()) return buckets;
  if (o.exchanges_on_host()) {
    return "--num_servers 0 on GPUs, which then exchange gradients themselves: those that the CPU exchanges come to "
           "it when all are computed";
  }
  if (host_waits_for_sizes(o)) {
    return "on a GPU another --ternary_format than tmask: the host waits for sizes that depend on the data, and "
           "submits nothing meanwhile";
  }
  return "";
}

bool TrainOptions::splits_gradients() const { return buckets_unsupported_reason(*this).empty(); }

void declare_train_options(OptionSet& options, TrainOptions& o) {
  options.group("Run");
  options.add("dataset", &o.dataset, "data set to train on; `synthetic` is built in and needs no files",
              one_of(dataset_names()));
  options.alias("dataset_name", "dataset");
  options.add("data_dir", &o.data_dir, "folder with the data set's files");
  options.add_flag("data_shards", &o.data_shards,
                   "each process trains its workers on its own shard of the data, in the folder worker_R_of_P of "
                   "--data_dir, R being its rank among P with workers (scripts/hosts/split_dataset.sh makes them)");
  options.alias("data_shares", "data_shards");
  options.add("train_dir", &o.train_dir, "folder for checkpoints, metrics and config; empty: a new one under runs/");
  options.add_flag("resume", &o.resume, "continue from the newest checkpoint in --train_dir");
  options.add("init_from", &o.init_from, "checkpoint whose parameters a new run begins with");
  options.add_flag("fine_tune", &o.fine_tune, "with --init_from: the logits start from scratch");
  options.add_flag("benchmark_mode", &o.benchmark_mode,
                   "measure speed: constant images in the shape of --dataset, whose files are not read; no evaluation");
  options.add_flag("memory", &o.memory,
                   "print what the run will allocate in host memory, part by part for each process, and exit: nothing "
                   "is trained or written");
  options.add("stop_after_secs", &o.stop_after_secs,
              "stop, saved, after the step in which this much time has passed; 0: never", at_least(0));
  options.add("seed", &o.seed, "of everything that is drawn");
  options.add("device", &o.device, "where to compute; auto: on GPUs if there are any, else on the CPU",
              one_of({"auto", "cpu", "cuda"}));
  options.add(
      "num_gpus", &o.num_gpus,
      "GPUs of this process, each with a part of the workers; 0: one, or of several processes whose GPUs exchange "
      "gradients each its equal part",
      at_least(0));
  options.add("math", &o.math,
              "products of nets on GPUs: tf32 rounds factors to 10 bits of mantissa for tensor cores, fp32 does not",
              one_of({"tf32", "fp32"}));
  options.add("threads", &o.threads, "threads of this process; 0: all of the machine", at_least(0));
  options.add("threads_per_worker", &o.threads_per_worker,
              "threads that compute one worker's gradient (results may depend on it); 0: all for one worker, else 1",
              at_least(0));
  options.add("num_preprocess_threads", &o.num_preprocess_threads,
              "threads that prepare examples; where a GPU holds all of them, only while it loads them", at_least(1));
  options.add(
      "shuffle", &o.shuffle,
      "order of an epoch's examples: exact: every order is equally likely; window, of records: reads shards from "
      "first to last, --num_readers at once, and draws each example from a window, for disks slow to seek",
      one_of({"exact", "window"}));
  options.add("num_readers", &o.num_readers, "shards that a window shuffle reads at once", in_range(1, 100000));
  options.add("input_queue_memory_factor", &o.input_queue_memory_factor,
              "examples in the window, in 1024; it orders them and holds no images, so it takes no memory",
              in_range(1, 1 << 20));
  options.group("Model and optimization (defaults are the data set's, or of it and the net)");
  options.add("net", &o.net, "network", one_of(net_names()));
  options.add("image_size", &o.image_size, "height and width of the net's input; 0: the data set's own",
              in_range(0, 1024));
  options.add(
      "preprocessing", &o.preprocessing,
      "how images become the net's input: auto is the data set's own, padded (of cifar10) crops at random of the "
      "image with a border of 4, flips, and subtracts mean and divides by deviation of the set; the others are of "
      "records, and auto there is the one that goes with --net",
      one_of(preprocessing_names()));
  options.add("augment", &o.augment,
              "whether training images are cropped, flipped and distorted at random; off: read as those for testing",
              one_of({"on", "off"}));
  options.add("label_offset", &o.label_offset,
              "added to the labels of records: -1 trains ImageNet with 1000 classes instead of the original's 1001",
              in_range(-1048575, 1048575));
  options.add("batch_size", &o.batch_size, "examples per step of all workers together", in_range(1, 2147483647));
  options.add("max_steps", &o.max_steps, "steps to train; 0: evaluate and save the start", at_least(0));
  options.add(
      "optimizer", &o.optimizer,
      "update rule; adam follows --learning_rate_decay_type like the others (the original's adam is always fixed)",
      one_of(optimizer_names()));
  options.add("initial_learning_rate", &o.initial_learning_rate, "learning rate of the first step",
              also_as_fp32(greater_than(0)));
  options.add("momentum", &o.momentum, "of the optimizers momentum and rmsprop", also_as_fp32(from_up_to(0, 1)));
  options.add("learning_rate_decay_type", &o.learning_rate_decay_type, "schedule",
              one_of({"fixed", "polynomial", "exponential", "steps"}));
  options.add("num_epochs_per_decay", &o.num_epochs_per_decay, "epochs per stair of the exponential schedule",
              greater_than(0));
  options.add("learning_rate_decay_factor", &o.learning_rate_decay_factor,
              "factor per stair of the schedules exponential and steps", greater_than(0));
  options.add("learning_rate_boundaries", &o.learning_rate_boundaries,
              "steps from which on the schedule `steps` has its next stair, as PyTorch's milestones: 100,200,500 or "
              "FIRST:LAST:STRIDE",
              step_list_from(1));
  options.add("weight_decay", &o.weight_decay, "factor of the L2 penalty, inside the gradient before compression",
              also_as_fp32(at_least(0)));
  options.add("clip_by_global_norm", &o.clip_by_global_norm,
              "scale each worker's gradient, weight decay included, down to this norm; 0: no such clipping",
              also_as_fp32(at_least(0)));
  options.add_flag(
      "nan_to_zero", &o.nan_to_zero,
      "NaN and infinite elements of a worker's gradient become 0 before anything else; metrics count them");
  options.add("ema_decay", &o.ema_decay, "decay of the moving average of the weights, which evaluation uses",
              also_as_fp32(from_up_to(0, 1)));
  options.add("dropout_keep_prob", &o.dropout_keep_prob, "fraction that dropout keeps, in nets that have dropout",
              also_as_fp32(number_where("above 0, at most 1", [](double p) { return p > 0 && p <= 1; })));
  options.group("Workers and exchange");
  options.add("num_nodes", &o.num_nodes,
              "workers, emulated or spread over the processes of a launch; divides --batch_size",
              in_range(1, kMaxSummedWorkers));
  options.add("strategy", &o.strategy,
              "simple: one worker, nothing exchanged; replicated: synchronous all-reduce; ps: "
              "synchronous parameter server; async: parameter server that applies each worker's gradient on arrival",
              one_of({"auto", "simple", "replicated", "ps", "async"}));
  options.add("num_servers", &o.num_servers,
              "with --strategy ps: the last N processes of a launch only serve, each its shard of the "
              "parameters; 0: the first process serves, beside its workers",
              at_least(0));
  options.add("pull", &o.pull,
              "with --strategy ps: gradient: workers get the mean and update their replicas; parameters: servers "
              "update, workers get the parameters (as --downlink_codec says)",
              one_of({"gradient", "parameters"}));
  options.add("async_scale", &o.async_scale,
              "with --strategy async: factor of every gradient that is applied; 0: 1 / --num_nodes",
              also_as_fp32(at_least(0)));
  options.add("max_staleness", &o.max_staleness,
              "with --strategy async: a gradient whose parameters have seen more updates since is dropped; -1: none is",
              at_least(-1));
  options.add(
      "exchange", &o.exchange,
      "how messages travel; the result has the same bits with each. auto: the one that moves the fewest bytes over "
      "a worker's link; it may add codes up on the way, which no --ternary_format shortens. vendor: the baseline, an "
      "all-reduce of the library between processes, with bits of its own",
      one_of({"auto", "all_gather", "scatter_reduce", "integer_sum", "vendor"}));
  options.add(
      "downlink_codec", &o.downlink_codec,
      "what the mean goes through on its way back; sums and sparse change its bytes only, bf16 and ternary its bits",
      one_of({"fp32", "bf16", "sums", "ternary", "sparse"}));
  options.alias("return_codec", "downlink_codec");
  options.add("reduce", &o.reduce, "what the update is given of the workers' gradients: their mean, or their sum",
              one_of({"average", "sum"}));
  options.add("on_nonfinite", &o.on_nonfinite,
              "on NaN or infinity in a gradient or their mean: stop, skip the step, or count it as zero",
              one_of({"stop", "skip", "zero"}));
  options.add(
      "overlap", &o.overlap,
      "exchange gradients of some tensors while others are still being computed (the result has the same bits); "
      "auto: with several processes or GPUs",
      one_of({"auto", "on", "off"}));
  options.add(
      "bucket_mb", &o.bucket_mb,
      "MiB of fp32 gradient that are exchanged together, a tensor is never cut; 0: 1, or all where a run has one "
      "GPU and --overlap is not on",
      at_least(0));
  options.add(
      "exchange_timeout", &o.exchange_timeout,
      "seconds after which a process or GPU that others wait for has failed; longer than a step or a save takes, "
      "and on GPUs than two steps",
      greater_than(0));
  options.add_flag("last_rank_evaluates", &o.last_rank_evaluates,
                   "of several processes the last one trains no workers, but evaluates each checkpoint; it must see "
                   "--train_dir and the data");
  options.add(
      "check_replicas", &o.check_replicas,
      "steps per comparison of all processes' and GPUs' replicas by checksums; a difference stops the run; 0: none",
      at_least(0));
  options.add("rebroadcast_epochs", &o.rebroadcast_epochs,
              "epochs after which all processes take over the first one's replica; 0: never", in_range(0, 1000000));
  options.group("Compression");
  options.add("grad_bits", &o.grad_bits, "32 is fp32, 16 is bf16, 8, 4 and 2 are qsgd:bits=8 to 2, 1 is ternary",
              one_of({32, 16, 8, 4, 2, 1}));
  options.add(
      "codec", &o.codec,
      "codec by a spec, NAME or NAME:KEY=VALUE,KEY=VALUE (--list_codecs); auto: what --grad_bits says. fp16 is for "
      "--exchange vendor");
  options.add("codec_for", &o.codec_for, "PATTERN=SPEC for tensors by name (* and ?); repeatable, first match wins");
  declare_codec_list(options);
  options.add("clip_factor", &o.clip_factor, "clip at this many standard deviations; 0: no clipping", at_least(0));
  options.add(
      "scaler", &o.scaler,
      "with clipping: paper is min(max|g|, c sigma), original is c sigma: 0 for a tensor of one element, for ever",
      one_of({"paper", "original"}));
  options.add("scaler_sharing", &o.scaler_sharing, "how workers' scalers combine (mean is biased)",
              one_of({"max", "mean", "none"}));
  options.add("clip_scope", &o.clip_scope, "saturate at the shared scaler, or at the worker's own first",
              one_of({"shared", "local"}));
  options.add("scaler_scope", &o.scaler_scope, "what shares one scaler", one_of({"layer", "block", "model"}));
  options.add("block_size", &o.block_size, "elements per scaler of --scaler_scope block; a multiple of 64",
              number_where("a positive multiple of 64",
                           [](double n) { return n >= 64 && n <= 0x1p50 && static_cast<std::int64_t>(n) % 64 == 0; }));
  options.add("ternary_format", &o.ternary_format,
              "2 bits, 1.6 bits, a mask with signs, or an entropy-coded mask with signs",
              one_of({"t2", "t5", "tmask", "trans"}));
  options.add("size_to_binarize", &o.size_to_binarize, "tensors with fewer elements travel as fp32", at_least(0));
  options.add_flag("quantize_logits", &o.quantize_logits,
                   "compress the logits' weights and biases too, else they travel as fp32");
  options.add(
      "floating_grad_epoch", &o.floating_grad_epoch,
      "the last of every this many epochs exchanges fp32 gradients; 0: none does",
      number_where("0, or an integer of at least 2 (1 would make every epoch floating, which is --grad_bits 32)",
                   [](double n) { return n == 0 || n >= 2; }));
  options.add("compress_from", &o.compress_from,
              "0-based step from which on gradients are compressed; every tensor travels as fp32 before", at_least(0));
  options.add(
      "codec_memory", &o.codec_memory,
      "what workers keep of gradients from step to step: none, ef[:decay=1] (error feedback: what messages left "
      "out), momentum[:decay=0.9] (a moving average, which is encoded) or dgc[:momentum=0.9,nesterov=false] (momentum "
      "before error feedback, for sparse codecs and --optimizer gd); auto: what --codec stands for");
  options.add("error_feedback", &o.error_feedback, "true: --codec_memory ef; false: none; auto: as --codec_memory says",
              one_of({"auto", "true", "false"}));
  options.add("error_feedback_decay", &o.error_feedback_decay,
              "of what error feedback keeps, the part that counts in the next step", in_range(0, 1));
  options.group("Reports");
  options.add("log_steps", &o.log_steps, "steps per line of metrics and log", at_least(1));
  options.add_flag("profile", &o.profile, "print at the end how the time of a step is split");
  options.add(
      "trace_steps", &o.trace_steps,
      "steps, after the first 3, of which trace.json says what each process did when (Chrome's trace format); 0: "
      "none",
      at_least(0));
  options.add("dump_messages", &o.dump_messages,
              "new folder for every message of gradients that the processes send in the first steps, each a file; "
              "scripts/read_messages.py decodes them");
  options.add("dump_steps", &o.dump_steps, "steps of --dump_messages", at_least(1));
  options.add(
      "dump_gradients", &o.dump_gradients,
      "steps per file of all workers' gradients, in the run directory's gradients/, for terngrad_codec; 0: none",
      at_least(0));
  options.add("telemetry_steps", &o.telemetry_steps, "steps per record of what compression did to each tensor; 0: none",
              at_least(0));
  options.add_flag("tensorboard", &o.tensorboard, "write the metrics to TensorBoard event files too");
  options.add("histogram_steps", &o.histogram_steps,
              "steps per histograms of weights and gradients, in histograms.jsonl and event files; 0: none",
              at_least(0));
  options.add("eval_steps", &o.eval_steps, "steps per evaluation on the test set; 0: at the end only", at_least(0));
  options.add("eval_at", &o.eval_at,
              "steps of further evaluations on the test set: 0,100,200,500 or FIRST:LAST:STRIDE or FIRST:LAST:*FACTOR; "
              "0: before the first step",
              step_list_from(0));
  options.add("save_iter", &o.save_iter, "steps per checkpoint; one is always saved at the end", at_least(1));
  options.add("keep_checkpoints", &o.keep_checkpoints, "newest checkpoints to keep; 0: all", at_least(0));
  options.add("on_save_error", &o.on_save_error,
              "when a checkpoint cannot be written: stop, or continue and try again at the next",
              one_of({"stop", "continue"}));
  refuse_options_of_the_original(options);
}

void apply_dataset_defaults(OptionSet& options, const TrainOptions& o) {
  const Defaults& of_dataset = dataset_defaults().at(o.dataset);
  options.set_default("net", of_dataset.net);
  const auto of_net = net_defaults().find({o.dataset, o.net});
  const Defaults& defaults = of_net == net_defaults().end() ? of_dataset : of_net->second;
  options.set_default("image_size", defaults.image_size);
  options.set_default("batch_size", defaults.batch_size);
  options.set_default("max_steps", defaults.max_steps);
  options.set_default("optimizer", defaults.optimizer);
  options.set_default("initial_learning_rate", defaults.initial_learning_rate);
  options.set_default("learning_rate_decay_type", defaults.learning_rate_decay_type);
  options.set_default("learning_rate_boundaries", defaults.learning_rate_boundaries);
  options.set_default("preprocessing", defaults.preprocessing);
  options.set_default("ema_decay", defaults.ema_decay);
  options.set_default("weight_decay", defaults.weight_decay);
}

ShuffleOptions shuffle_of(const TrainOptions& o) {
  return {.kind = o.shuffle == "window" ? ShuffleOptions::Kind::kWindow : ShuffleOptions::Kind::kExact,
          .num_readers = o.num_readers,
          .window = std::int64_t{1024} * o.input_queue_memory_factor};
}

std::string preprocessing_of(const std::string& dataset, const std::string& net, const std::string& preprocessing) {
  if (preprocessing != "auto" || !is_of_records(dataset)) return preprocessing;
  if (net.starts_with("alexnet") || net == "googlenet_2014") return "alexnet";
  if (net.starts_with("vgg")) return "vgg";
  return net.starts_with("googlenet") || net.starts_with("inception") || net.starts_with("resnet") ? "inception"
                                                                                                   : "standard";
}

void apply_launch(TrainOptions& o, const LaunchPlace& place) {
  o.gpus.count = std::max(1, o.num_gpus);
  if (place.num_processes == 1) return;
  if (o.threads == 0) o.threads = std::max(1, num_hardware_threads() / place.num_sharing);
  o.num_processes = place.num_processes - (o.last_rank_evaluates ? 1 : 0);
  o.trains = place.rank < o.num_processes;
}

int num_threads(const TrainOptions& o) { return o.threads == 0 ? num_hardware_threads() : o.threads; }

int threads_per_worker(const TrainOptions& o) {
  if (o.threads_per_worker != 0) return o.threads_per_worker;
  return o.num_nodes == 1 ? num_threads(o) : 1;
}

DeviceChoice devices_of(const TrainOptions& o) { return choose_devices(o.device, o.gpus, o.math); }

OnNonfinite on_nonfinite_of(const TrainOptions& o) {
  return pick<OnNonfinite>(o.on_nonfinite,
                           {{"stop", OnNonfinite::kStop}, {"skip", OnNonfinite::kSkip}, {"zero", OnNonfinite::kZero}});
}

CompressedAllReduceOptions exchange_options(const TrainOptions& o, std::uint64_t run_id, int num_threads) {
  CompressedAllReduceOptions result;
  result.codecs = codec_plan_options(o);
  result.algorithm = pick<ExchangeAlgorithm>(o.exchange, {{"auto", ExchangeAlgorithm::kAuto},
                                                          {"all_gather", ExchangeAlgorithm::kAllGather},
                                                          {"scatter_reduce", ExchangeAlgorithm::kScatterReduce},
                                                          {"integer_sum", ExchangeAlgorithm::kIntegerSum}});
  result.downlink_codec = pick<DownlinkCodec>(o.downlink_codec, {{"fp32", DownlinkCodec::kFloat32},
                                                                 {"bf16", DownlinkCodec::kBfloat16},
                                                                 {"sums", DownlinkCodec::kSums},
                                                                 {"ternary", DownlinkCodec::kTernary},
                                                                 {"sparse", DownlinkCodec::kSparse}});
  result.on_nonfinite = on_nonfinite_of(o);
  result.mean_factor = o.mean_factor();
  if (o.strategy_name() == "ps") result.owners = ShardOwners::kServers;
  result.seed = o.seed;
  result.run_id = run_id;
  result.num_threads = num_threads;
  return result;
}

std::function<bool(std::uint64_t step)> floating_steps(const TrainOptions& o, std::int64_t num_examples) {
  return [=, from = static_cast<std::uint64_t>(o.compress_from), batch_size = o.batch_size,
          period = o.floating_grad_epoch](std::uint64_t step) {
    return step < from || (period > 0 && is_floating_step(step, batch_size, num_examples, period));
  };
}

CompressedAllReduceOptions floating_exchange_options(const TrainOptions& o, std::uint64_t run_id, int num_threads) {
  CompressedAllReduceOptions result = exchange_options(o, run_id, num_threads);
  result.codecs = {};
  result.codecs.codec = "fp32";
  // Float32 elements do not add up as codes; for them this is what auto is left with.
  if (result.algorithm == ExchangeAlgorithm::kIntegerSum) result.algorithm = ExchangeAlgorithm::kAuto;
  // Nor is their mean sparse.
  if (result.downlink_codec == DownlinkCodec::kSparse) result.downlink_codec = DownlinkCodec::kFloat32;
  return result;
}

Buckets exchange_buckets(const TrainOptions& o, const Layout& layout, std::span<const int> order, double default_mb) {
  if (!o.splits_gradients()) return whole_bucket(layout);
  // No layout has as much as the largest number of bytes here.
  const double bytes = std::clamp((o.bucket_mb == 0 ? default_mb : o.bucket_mb) * 0x1p20, 1.0, 0x1p60);
  return plan_buckets(layout, order, static_cast<std::int64_t>(bytes));
}

bool overlaps(const TrainOptions& o, int num_ranks) {
  if (o.overlap == "off" || !overlap_unsupported_reason(o).empty()) return false;
  return o.overlap == "on" || num_ranks > 1;
}

Schedule make_schedule(const TrainOptions& o, std::int64_t num_examples) {
  Schedule schedule;
  schedule.kind = pick<ScheduleKind>(o.learning_rate_decay_type, {{"fixed", ScheduleKind::kFixed},
                                                                  {"polynomial", ScheduleKind::kPolynomial},
                                                                  {"exponential", ScheduleKind::kExponential},
                                                                  {"steps", ScheduleKind::kSteps}});
  schedule.initial_rate = o.initial_learning_rate;
  schedule.total_steps = o.max_steps;
  schedule.decay_factor = o.learning_rate_decay_factor;
  schedule.boundaries = parse_step_list(o.learning_rate_boundaries);
  schedule.steps_per_decay = steps_per_decay(num_examples, o.batch_size, o.num_epochs_per_decay);
  return schedule;
}

}  // namespace terngrad
