#include "trainers/commands/records_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datasets/formats/input_file.h"
#include "datasets/records/label_names.h"
#include "datasets/records/record_store.h"
#include "datasets/records/shards.h"
#include "datasets/transforms/resize.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "trainers/command_line/help_text.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/launched_command.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/command_main.h"
#include "trainers/launch/progress.h"
#include "trainers/records/array_images.h"
#include "trainers/records/file_images.h"
#include "trainers/records/record_check.h"
#include "trainers/records/resized_images.h"
#include "trainers/records/shard_builder.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kRecordsCommand = "terngrad_records";
constexpr const char* kVerbs = "build, index, check, show, copy, stats";

constexpr const char* kRecordsUsage =
    "terngrad_records: data sets as TFRecord shards, for --dataset records, imagenet\n"
    "and flowers.\n"
    "  build          writes shards of images in folders, lists or small sets\n"
    "  index DIR      makes the indexes of shards that have none\n"
    "  check DIR      finds damaged records\n"
    "  show DIR       prints a record\n"
    "  copy DIR OUT   copies all records but the damaged ones\n"
    "  stats DIR      counts records, bytes and labels\n"
    "Each has its --help.\n"
    "Example: terngrad_records build --input photographs --out records\n"
    "         terngrad_train --dataset records --data_dir records --image_size 64";

struct BuildOptions {
  std::string input;
  std::string from = "folder";
  std::string labels;
  std::string boxes;
  Resizing resizing;
  ShardBuild build = {.folder = ""};
  int threads = 0;
};

/// Options of the verbs other than build.
struct LookOptions {
  std::string folder;
  std::string out;
  std::string subset = "all";
  bool decode = false;
  std::int64_t record = 0;
  std::string image;
  int threads = 0;
};

int num_threads(int asked) { return asked == 0 ? num_hardware_threads() : asked; }

void declare_threads(OptionSet& options, int& threads) {
  options.add("threads", &threads, "threads; 0: all of the machine; changes no byte", at_least(0));
}

void declare_folder(OptionSet& options, LookOptions& o) {
  options.add_positional("DIR", &o.folder, "folder with shards");
  declare_threads(options, o.threads);
}

/// The subset of --subset, or all that exist. @throws DataError if there is none
std::vector<Subset> subsets_of(const LookOptions& o) {
  if (o.subset != "all") return {o.subset == "train" ? Subset::kTrain : Subset::kTest};
  std::vector<Subset> subsets;
  for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
    if (has_shards(o.folder, subset)) subsets.push_back(subset);
  }
  if (subsets.empty()) find_shards(o.folder, Subset::kTrain);  // throws an error that names the expected files
  return subsets;
}

void declare_subset(OptionSet& options, LookOptions& o) {
  options.add("subset", &o.subset, "of which subset", one_of({"all", "train", "test"}));
}

/// Opens the images of --from and --input in their original size.
ImageSources input_of(const BuildOptions& o) {
  if (o.from == "folder") return folder_images(o.input);
  if (o.from == "csv") return csv_images(o.input);
  if (o.from == "imagenet") return imagenet_images(o.input, o.labels, o.boxes);
  if (o.from == "mnist") return mnist_images(o.input);
  if (o.from == "cifar10") return cifar10_images(o.input);
  return npy_images(o.input);
}

ImageSources sources_of(const BuildOptions& o) {
  ImageSources sources = input_of(o);
  return o.resizing.size == 0 ? std::move(sources) : resized_images(std::move(sources), o.resizing);
}

/// Shows the progress of a build: on a terminal one line that is redrawn, else a line every ten seconds.
class BuildDisplay {
 public:
  void show(const BuildProgress& progress) {
    const auto now = Clock::now();
    const bool is_last = progress.num_done == progress.num_shards;
    if (!is_last && now - shown_ < (is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10))) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    std::string line =
        fmt::format("{}: {} of {} shards", subset_name(progress.subset), progress.num_done, progress.num_shards);
    if (progress.bytes > 0) {
      line += fmt::format(", {} written, {}/s", format_bytes(static_cast<double>(progress.bytes)),
                          format_bytes(static_cast<double>(progress.bytes) / std::max(seconds, 1e-3)));
    }
    std::fprintf(stderr, is_terminal_ ? "\r\033[K%s%s" : "%s%s", line.c_str(), is_last || !is_terminal_ ? "\n" : "");
    if (is_last) begin_ = now;
  }

 private:
  bool is_terminal_ = ProgressDisplay::detect(stderr) == ProgressDisplay::Mode::kTerminal;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

/// True for data sets whose images have one size and a fixed order.
bool has_fixed_order(const BuildOptions& o) { return o.from == "mnist" || o.from == "cifar10"; }

void check(const OptionSet& options, const BuildOptions& o) {
  if (o.input.empty()) throw UsageError("--input: must name the folder with the images");
  if (o.build.folder.empty()) throw UsageError("--out: must name the folder for the shards");
  if (!is_folder(o.input)) TERNGRAD_THROW(UsageError, "--input ", o.input, ": there is no such folder");
  if (o.from == "imagenet" && o.labels.empty()) {
    throw UsageError("--labels: must name the file of synsets, one a line in the order of their labels");
  }
  options.require_needs();
}

int run_build(int argc, const char* const* argv) {
  BuildOptions o;
  OptionSet options(
      "terngrad_records build: writes a data set as TFRecord shards, with their\n"
      "indexes. Images keep their bytes unless --size makes them smaller. A build\n"
      "that was interrupted continues with the shards that are missing.\n"
      "Example: terngrad_records build --input photographs --out records\n"
      "         terngrad_records build --from imagenet --input ILSVRC2012\n"
      "             --labels synsets.txt --out records");
  options.add("input", &o.input, "folder with the images, as --from says");
  options.add("from", &o.from,
              "what it holds: folder: train/CLASS/* and test/CLASS/*; csv: train.csv and test.csv with lines "
              "FILE,LABEL[,XMIN,YMIN,XMAX,YMAX]...; imagenet: train/SYNSET/* and validation/SYNSET/*; mnist, cifar10, "
              "npy: what --dataset of that name reads, written as PNG without loss",
              one_of({"folder", "csv", "imagenet", "mnist", "cifar10", "npy"}));
  options.add("out", &o.build.folder, "folder for the shards; made if it is missing");
  options.add("labels", &o.labels, "of imagenet: file with the synset of label 1, 2 and so on in its lines")
      .needs("--from imagenet", [&o] { return o.from == "imagenet"; });
  options.add("boxes", &o.boxes, "of imagenet: file with lines FILE,XMIN,YMIN,XMAX,YMAX in fractions of the sides")
      .needs("--from imagenet", [&o] { return o.from == "imagenet"; });
  options
      .add("size", &o.resizing.size,
           "shrink larger images until their shorter side has this many pixels, and encode them as JPEG again; 0: "
           "images keep their bytes",
           in_range(0, kMaxResizedSide))
      .needs("images of any size, as of --from folder", [&o] { return !has_fixed_order(o); });
  options
      .add_flag("raw", &o.resizing.is_raw,
                "with --size: store every image as raw RGB, 3 bytes a pixel, so that training decodes nothing")
      .needs("--size", [&o] { return o.resizing.size != 0; });
  options.add("quality", &o.resizing.quality, "with --size: quality of JPEG", in_range(1, 100))
      .needs("--size", [&o] { return o.resizing.size != 0; })
      .needs("images in JPEG; --raw stores pixels", [&o] { return !o.resizing.is_raw; });
  options.add("train_shards", &o.build.train_shards, "shards of the training subset", in_range(1, 99999));
  options.add("test_shards", &o.build.test_shards, "shards of the test subset", in_range(1, 99999));
  options.add("seed", &o.build.seed, "of the order of the images")
      .needs("a set whose order is drawn, as --from folder", [&o] { return !has_fixed_order(o); });
  declare_threads(options, o.threads);
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  check(options, o);
  o.build.num_threads = num_threads(o.threads);
  const ImageSources sources = sources_of(o);
  BuildDisplay display;
  build_shards(sources, o.build, [&](const BuildProgress& progress) { display.show(progress); });
  return kExitSuccess;
}

int run_index(int argc, const char* const* argv) {
  LookOptions o;
  OptionSet options(
      "terngrad_records index: makes the index files of shards, which training needs to\n"
      "find records. Reads the shards whole.\n"
      "Example: terngrad_records index imagenet-records");
  declare_folder(options, o);
  declare_subset(options, o);
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  for (const Subset subset : subsets_of(o)) {
    const std::size_t count = make_index_file(o.folder, subset, num_threads(o.threads));
    std::cout << fmt::format("{}: {} records\n", index_path(o.folder, subset).string(), count);
  }
  return kExitSuccess;
}

/// Prints the result of a check. @returns the exit code
int report(const char* done, Subset subset, const RecordCheck& result) {
  for (const BadRecord& bad : result.bad) std::cout << bad.problem << "\n";
  std::cout << fmt::format("{}: {} records {}, {} damaged\n", subset_name(subset), result.num_good, done,
                           result.bad.size());
  return result.bad.empty() ? kExitSuccess : kExitFailure;
}

int run_check(int argc, const char* const* argv) {
  LookOptions o;
  OptionSet options(
      "terngrad_records check: reads every record, and lists those that training would\n"
      "refuse. Exit code 1 if there are any.\n"
      "Example: terngrad_records check records --decode");
  declare_folder(options, o);
  declare_subset(options, o);
  options.add_flag("decode", &o.decode, "decode every image too; else its header is looked at");
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  int code = kExitSuccess;
  for (const Subset subset : subsets_of(o)) {
    code = std::max(code, report("good", subset,
                                 check_records(find_shards(o.folder, subset), index_path_to_read(o.folder, subset),
                                               o.decode, num_threads(o.threads))));
  }
  return code;
}

int run_show(int argc, const char* const* argv) {
  LookOptions o;
  o.subset = "train";
  OptionSet options(
      "terngrad_records show: prints a record.\n"
      "Example: terngrad_records show records --record 17 --image image.jpg");
  declare_folder(options, o);
  options.add("subset", &o.subset, "of which subset", one_of({"train", "test"}));
  options.add("record", &o.record, "its number in the subset, from 0", at_least(0));
  options.add("image", &o.image, "file to write its image to, as it is stored");
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  check_output_file("image", o.image);
  const RecordStore store(o.folder, subsets_of(o)[0], num_threads(o.threads));
  if (o.record >= static_cast<std::int64_t>(store.size())) {
    TERNGRAD_THROW(UsageError, "--record ", o.record, ": there are ", store.size(), " records; accepted: 0 to ",
                   store.size() - 1);
  }
  const auto record = static_cast<std::size_t>(o.record);
  const ImageExample example = store.read(record);
  std::cout << to_text(store.place(record), example);
  if (!o.image.empty()) write_file_atomically(o.image, example.encoded);
  return kExitSuccess;
}

int run_copy(int argc, const char* const* argv) {
  LookOptions o;
  bool without_bad = false;
  OptionSet options(
      "terngrad_records copy: copies shards without their damaged records, and makes the\n"
      "indexes of the copies.\n"
      "Example: terngrad_records copy records clean-records --without-bad --decode");
  declare_folder(options, o);
  options.add_positional("OUT", &o.out, "folder for the copies; made if it is missing");
  declare_subset(options, o);
  options.add_flag("without-bad", &without_bad,
                   "leave damaged records out; must be given, for the copy may be shorter");
  options.add_flag("decode", &o.decode, "count images that cannot be decoded as damaged");
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  if (!without_bad) throw UsageError("--without-bad: must be given; shards as they are are copied with cp");
  for (const Subset subset : subsets_of(o)) {
    report("copied", subset, copy_good_records(o.folder, o.out, subset, o.decode, num_threads(o.threads)));
  }
  const fs::path labels = fs::path(o.folder) / "labels.txt";
  if (path_exists(labels)) write_file_atomically(fs::path(o.out) / "labels.txt", read_file_text(labels));
  return kExitSuccess;
}

int run_stats(int argc, const char* const* argv) {
  LookOptions o;
  OptionSet options(
      "terngrad_records stats: counts records, bytes and labels.\n"
      "Example: terngrad_records stats records");
  declare_folder(options, o);
  declare_subset(options, o);
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  const LabelNames names = read_label_names(o.folder).value_or(LabelNames());
  for (const Subset subset : subsets_of(o)) {
    const RecordStatistics statistics = record_statistics(o.folder, subset, num_threads(o.threads));
    std::cout << fmt::format(
        "{}: {} records in {} shards, {}; a record has {} to {}, median {}\n", subset_name(subset),
        statistics.num_records, statistics.num_shards, format_bytes(static_cast<double>(statistics.num_bytes)),
        format_bytes(statistics.min_bytes), format_bytes(statistics.max_bytes), format_bytes(statistics.median_bytes));
    for (const auto& [label, count] : statistics.records_of_label) {
      const auto name = names.find(label);
      std::cout << fmt::format("  label {:>4}  {:>8} records{}\n", label, count,
                               name == names.end() ? "" : "  " + name->second);
    }
  }
  return kExitSuccess;
}

/// The command without a verb: --help, --version, or an error.
int run_records_without_verb(int argc, const char* const* argv) {
  OptionSet options(kRecordsUsage);
  if (argc > 1 && argv[1][0] != '-') {
    TERNGRAD_THROW(UsageError, "unknown command '", argv[1], "'; accepted: ", kVerbs);
  }
  if (answer_questions(kRecordsCommand, options, options.parse(argc, argv))) return kExitSuccess;
  TERNGRAD_THROW(UsageError, "a command is missing; accepted: ", kVerbs, "; --help says more");
}

}  // namespace

int run_records(int argc, char** argv) {
  constexpr std::array<std::pair<const char*, int (*)(int, const char* const*)>, 6> kRun = {{{"build", run_build},
                                                                                             {"index", run_index},
                                                                                             {"check", run_check},
                                                                                             {"show", run_show},
                                                                                             {"copy", run_copy},
                                                                                             {"stats", run_stats}}};
  const std::string verb = argc > 1 ? argv[1] : "";
  for (const auto& [name, run] : kRun) {
    if (verb == name) return run(argc - 1, argv + 1);
  }
  return run_records_without_verb(argc, argv);
}

}  // namespace terngrad
