#include "trainers/options/train_option_groups.h"

#include <optional>
#include <string>

#include "datasets/dataset.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/train_conditions.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// Identity value of options that only matter with --shuffle window.
std::optional<std::string> in_window(const TrainOptions& o, int value) {
  return o.shuffle == Shuffle::kWindow ? std::optional(std::to_string(value)) : std::nullopt;
}

/// A run may continue on the other kind of device, for which this option was not recorded.
bool was_on_other_device(const std::string&, const std::string& recorded) { return recorded == kNotRecorded; }

}  // namespace

void declare_run_options(OptionSet& options, TrainOptions& o) {
  options.group("Run");
  options
      .add("dataset", &o.dataset, "data set to train on; `synthetic` is built in and needs no files",
           one_of(dataset_names()))
      .identity({.value = [&o] { return o.benchmark_mode ? o.dataset + kConstantImagesSuffix : o.dataset; }})
      .alias("dataset_name")
      .original("same; also `--dataset`. The programs are not one for each data set", "dataset_name");
  options.add("data_dir", &o.data_dir, "folder with the data set's files")
      .role(OptionRole::kPlace)
      .needs(data_that_is_read(o))
      .needs(data_in_files(o))
      .original("same; holds the data set's own files, or records ([data](data.md))");
  options
      .add_flag("data_shards", &o.data_shards,
                "each process trains its workers on its own shard of the data, in the folder worker_R_of_P of "
                "--data_dir, R being its rank among P with workers (scripts/hosts/split_dataset.sh makes them)")
      .needs(data_that_is_read(o))
      .needs(data_in_files(o))
      .needs(several_processes(o))
      .needs(synchronous_strategy(o));
  options.add("train_dir", &o.train_dir, "folder for checkpoints, metrics and config; empty: a new one under runs/")
      .role(OptionRole::kPlace)
      .original(
          "changed: refused if it holds something already, where the original deletes it. Without it, a new folder "
          "under `runs/`");
  options.add_flag("resume", &o.resume, "continue from the newest checkpoint in --train_dir")
      .role(OptionRole::kReport)
      .needs("--train_dir, the run to resume", [&o] { return !o.train_dir.empty(); });
  options.add("init_from", &o.init_from, "checkpoint whose parameters a new run begins with")
      .role(OptionRole::kStart)
      .needs("a new run; --resume continues from the run's own checkpoint", [&o] { return !o.resume; });
  options.add_flag("fine_tune", &o.fine_tune, "with --init_from: the logits start from scratch")
      .role(OptionRole::kStart)
      .needs("--init_from", [&o] { return !o.init_from.empty(); })
      .original("same, with `--init_from`");
  options
      .add_flag("benchmark_mode", &o.benchmark_mode,
                "measure speed: constant images in the shape of --dataset, whose files are not read; no evaluation")
      .identity(part_of("dataset"))
      .needs(own_evaluation(o))
      .original("same: images of 0.5, labels below the last class; data files are not read, nothing is evaluated");
  options
      .add_flag("memory", &o.memory,
                "print the host memory that the run's first steps take in each process, and exit: nothing is "
                "written")
      .role(OptionRole::kReport)
      .needs("--device cpu: of GPUs the libraries that compute decide about most", [&o] { return computes_on_cpu(o); })
      .needs("a run without --last_rank_evaluates, to one process less: processes that train are measured",
             [&o] { return !o.last_rank_evaluates; });
  options
      .add("stop_after_secs", &o.stop_after_secs,
           "stop, saved, after the step in which this much time has passed; 0: never", at_least(0))
      .role(OptionRole::kReport);
  options.add("seed", &o.seed, "of everything that is drawn")
      .not_compared()
      .original("same, of everything that is drawn; 64 bits");
  options
      .add("device", &o.device, "where to compute; auto: on GPUs if there are any, else on the CPU",
           one_of({"auto", "cpu", "cuda"}))
      .role(OptionRole::kSpeed)
      .not_compared();
  options
      .add("num_gpus", &o.num_gpus,
           "GPUs of this process, each with a part of the workers; 0: one, or of several processes whose GPUs exchange "
           "gradients each its equal part",
           at_least(0))
      .role(OptionRole::kSpeed)
      .needs(gpu(o).what, gpu(o).holds,
             [&o] {
               std::string remedy = "on a CPU leave it out";
               if (o.num_nodes == 1) {
                 remedy += ": --num_nodes " + std::to_string(o.num_gpus) + " trains with as many workers";
               }
               return remedy;
             })
      .needs(
          "0 or 1 with --strategy async and several processes, whose workers take turns on one GPU; for more GPUs give "
          "more processes",
          [&o] { return o.num_gpus <= 1 || !is_async(o) || o.num_processes == 1; })
      .original(
          "same: GPUs of this process, each with a part of the workers; by default 1, or of several processes whose "
          "GPUs exchange gradients an equal part of the host's. `--exchange` says how they exchange");
  options
      .add("math", &o.math,
           "products of nets on GPUs: tf32 rounds factors to 10 bits of mantissa for tensor cores, fp32 does not",
           one_of({"tf32", "fp32"}))
      .identity({.value = [&o] { return computes_on_cpu(o) ? std::nullopt : std::optional(o.math); },
                 .is_same = was_on_other_device})
      .needs(gpu(o));
  options.add("threads", &o.threads, "threads of this process; 0: all of the machine", at_least(0))
      .role(OptionRole::kPlace);
  options
      .add("threads_per_worker", &o.threads_per_worker,
           "threads that compute one worker's gradient (results may depend on it); 0: all for one worker, else 1",
           at_least(0))
      .identity({.value =
                     [&o] {
                       return computes_on_cpu(o) ? std::optional(std::to_string(threads_per_worker(o))) : std::nullopt;
                     },
                 .is_compared_last = true,  // as its default depends on the number of workers
                 .is_same = was_on_other_device,
                 .advice =
                     [](const std::string& recorded) {
                       return "--threads_per_worker " + recorded + " (and --threads " + recorded + " or more)";
                     }})
      .needs("--device cpu", [&o] { return !o.trains || computes_on_cpu(o); });
  options
      .add("num_preprocess_threads", &o.num_preprocess_threads,
           "threads that prepare examples; where a GPU holds all of them, only while it loads them", at_least(1))
      .role(OptionRole::kPlace)
      .original("changed: threads of the process, any number from 1; default 1");
  add_choice(
      options, "shuffle", &o.shuffle,
      "order of an epoch's examples: exact: every order is equally likely; window, of records: reads shards from "
      "first to last, --num_readers at once, and draws each example from a window, for disks slow to seek")
      .needs("--dataset imagenet, flowers or records, which are in shards",
             [&o] { return o.shuffle != Shuffle::kWindow || reads_records(o); });
  options.add("num_readers", &o.num_readers, "shards that a window shuffle reads at once", in_range(1, 100000))
      .identity({.value = [&o] { return in_window(o, o.num_readers); }})
      .needs(window_shuffle(o))
      .original("of `--shuffle window`, for records only: see `input_queue_memory_factor`");
  options
      .add("input_queue_memory_factor", &o.input_queue_memory_factor,
           "examples in the window, in 1024; it orders them and holds no images, so it takes no memory",
           in_range(1, 1 << 20))
      .identity({.value = [&o] { return in_window(o, o.input_queue_memory_factor); }})
      .needs(window_shuffle(o))
      .original(
          "of `--shuffle window`, for records only: the queue is simulated over the numbers of the examples, so that "
          "its order is known beforehand and repeatable, each example comes once in an epoch, and a run resumes in the "
          "middle of one. By default `--shuffle exact`");
}

}  // namespace terngrad
