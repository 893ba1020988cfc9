#include "trainers/commands/codec_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/memory/memory_options.h"
#include "compress/plan/codec_registry.h"
#include "datasets/formats/input_file.h"
#include "datasets/formats/npy.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"
#include "trainers/command_line/help_text.h"
#include "trainers/command_line/option_set.h"
#include "trainers/commands/launched_command.h"
#include "trainers/inspect/codec_inspection.h"
#include "trainers/inspect/encoded_file.h"
#include "trainers/inspect/gradient_file.h"
#include "trainers/inspect/inspection_report.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/safetensors.h"
#include "trainers/io/terminal_width.h"
#include "trainers/launch/command_main.h"
#include "trainers/options/codec_list.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCodecCommand = "terngrad_codec";

/// Default values of --codec.
std::vector<std::string> default_codecs() {
  return {"fp32",        "bf16",        "fp8",
          "qsgd:bits=8", "qsgd:bits=4", "qsgd:bits=2,block=128",
          "natural",     "ternary",     "ternary:clip_factor=2.5",
          "terngrad_ef", "sign",        "efsignsgd",
          "eden",        "topk"};
}

constexpr const char* kUsage =
    "terngrad_codec: what codecs do to gradients, and encoded gradients as files.\n"
    "  inspect FILE|FOLDER  bits and distortion of codecs: a table, JSON\n"
    "  encode IN OUT        writes a gradient as a worker would send it\n"
    "  decode IN OUT        writes what such a file says\n"
    "Each has its --help.\n"
    "Example: terngrad_codec inspect gradient.npy\n"
    "         terngrad_codec inspect runs/dumped --json codecs.json";

struct InspectOptions {
  std::string path;
  std::vector<std::string> codecs = default_codecs();
  std::string memory = "auto";
  bool per_tensor = false;
  std::uint64_t seed = 1;
  std::string json;
};

struct EncodeOptions {
  std::string in;
  std::string out;
  std::string codec;
  std::uint64_t seed = 1;
  std::uint64_t step = 0;
  int worker = 0;
  int num_nodes = 0;
};

void declare(OptionSet& options, InspectOptions& o) {
  options.add_positional("FILE|FOLDER", &o.path,
                         "a gradient in a .npy or .safetensors file, or a folder of step-<number>.safetensors or .npy, "
                         "such as a run with --dump_gradients");
  options.add("codec", &o.codecs, "codec or preset, by a spec (--list_codecs); repeatable");
  options.add(
      "codec_memory", &o.memory,
      "what workers keep from step to step: none, ef[:decay=1], momentum[:decay=0.9], "
      "dgc[:momentum=0.9,nesterov=false] (of sparse codecs), loco[:decay=0.8,reset=1024] or ef21[:decay=0]; auto: what "
      "a preset or codec has");
  options.add_flag("per_tensor", &o.per_tensor, "a table for each tensor too");
  options.add("seed", &o.seed, "of what codecs draw");
  options.add("json", &o.json, "file to write all numbers to");
  declare_codec_list(options);
}

void declare(OptionSet& options, EncodeOptions& o) {
  options.add_positional("IN", &o.in, "a gradient in a .npy or .safetensors file");
  options.add_positional("OUT", &o.out, "file to write, .tgrd by custom");
  options.add("codec", &o.codec, "codec or preset, by a spec (--list_codecs)");
  options.add("seed", &o.seed, "of what the codec draws");
  options.add("step", &o.step, "likewise, from 0", in_range(0, static_cast<double>((std::uint64_t{1} << 40) - 1)));
  options.add("worker", &o.worker, "likewise, and which worker's gradient of IN", at_least(0));
  options.add("num_nodes", &o.num_nodes, "workers that there are; 0: those of IN, or as many as --worker needs",
              in_range(0, kMaxSummedWorkers));
  declare_codec_list(options);
}

/// Runs `make` for the codec of --codec. @throws UsageError for its InvalidArgument or NotSupported
template <class Make>
auto with_codec(const std::string& codec, const Make& make) {
  try {
    return make();
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, "--codec ", codec, ": ", error.what());
  } catch (const NotSupported& error) {
    TERNGRAD_THROW(UsageError, "--codec ", codec, ": ", error.what());
  }
}

void require_same(const GradientFile& first, const GradientFile& next) {
  if (first.layout.fingerprint() == next.layout.fingerprint() && first.workers.size() == next.workers.size()) return;
  TERNGRAD_THROW(DataError, "'", next.source, "' has other tensors or workers than '", first.source, "'");
}

/// Reads a file; lists skipped tensors on stderr.
GradientFile read_gradients(const fs::path& path) {
  GradientFile file = read_gradient_file(path);
  if (file.left_out.empty()) return file;
  std::cerr << kCodecCommand << ": '" << file.source << "': left out, as gradients are F16, BF16, F32 or F64: ";
  for (std::size_t i = 0; i < file.left_out.size(); ++i) std::cerr << (i == 0 ? "" : ", ") << file.left_out[i];
  std::cerr << "\n";
  return file;
}

int inspect(const InspectOptions& o) {
  std::vector<InspectedCodec> codecs;
  for (const std::string& spec : o.codecs) {
    codecs.push_back(with_codec(spec, [&] {
      try {
        if (o.memory != "auto") canonical_memory(o.memory);
      } catch (const InvalidArgument& error) {
        TERNGRAD_THROW(UsageError, "--codec_memory ", o.memory, ": ", error.what());
      }
      return inspected_codec(spec, o.memory);
    }));
  }
  const auto files = list_gradient_files(o.path);
  const GradientFile first = read_gradients(files[0].second);
  Inspection inspection{.source = o.path,
                        .steps = {},
                        .num_workers = static_cast<int>(first.workers.size()),
                        .layout = first.layout,
                        .seed = o.seed,
                        .results = {}};
  std::vector<CodecInspection> running;
  running.reserve(codecs.size());
  for (const InspectedCodec& codec : codecs) {
    running.push_back(with_codec(
        codec.given, [&] { return CodecInspection(codec, inspection.layout, inspection.num_workers, o.seed); }));
  }
  for (const auto& [step, path] : files) {
    const bool is_first = inspection.steps.empty();
    const GradientFile next = is_first ? GradientFile{} : read_gradients(path);
    if (!is_first) require_same(first, next);
    // File names have the steps done after the step: its 0-based number plus 1.
    for (CodecInspection& each : running) each.add(is_first ? first : next, step == 0 ? 0 : step - 1);
    inspection.steps.push_back(step);
  }
  for (const CodecInspection& each : running) inspection.results.push_back(each.result());
  std::cout << to_text(inspection, o.per_tensor, text_width(stdout));
  if (!o.json.empty()) write_file_atomically(o.json, to_json(inspection).dump(2) + "\n");
  return kExitSuccess;
}

int run_inspect(int argc, const char* const* argv) {
  InspectOptions o;
  OptionSet options(
      "terngrad_codec inspect: what codecs do to gradients.\n"
      "Example: terngrad_codec inspect runs/dumped --codec qsgd --json codecs.json");
  declare(options, o);
  if (answer_questions(kCodecCommand, options, options.parse(argc, argv))) return kExitSuccess;
  check_output_file("json", o.json);
  return inspect(o);
}

int run_encode(int argc, const char* const* argv) {
  EncodeOptions o;
  OptionSet options(
      "terngrad_codec encode: writes a gradient as a worker would send it.\n"
      "Example: terngrad_codec encode gradient.npy gradient.tgrd --codec ternary");
  declare(options, o);
  if (answer_questions(kCodecCommand, options, options.parse(argc, argv))) return kExitSuccess;
  if (o.codec.empty()) throw UsageError("--codec: is missing; --list_codecs shows what there is");
  with_codec(o.codec, [&] { return make_codec(o.codec, {}); });
  if (is_folder(o.in)) TERNGRAD_THROW(UsageError, "IN ", o.in, ": is a folder; encode takes one file");
  require_writable(o.out);
  const GradientFile gradients = read_gradients(o.in);
  const auto num_given = static_cast<int>(gradients.workers.size());
  const int num_workers = o.num_nodes != 0 ? o.num_nodes : std::max(num_given, num_given == 1 ? o.worker + 1 : 1);
  if (num_given > 1 && num_workers != num_given) {
    TERNGRAD_THROW(UsageError, "--num_nodes ", num_workers, ": '", o.in, "' has gradients of ", num_given,
                   " workers; accepted: 0, ", num_given);
  }
  if (o.worker >= num_workers) {
    TERNGRAD_THROW(UsageError, "--worker ", o.worker, ": is none of ", num_workers, " workers; accepted: 0 to ",
                   num_workers - 1);
  }
  write_file_atomically(
      o.out, with_codec(o.codec, [&] {
        return encode_file(
            gradients,
            {.codec = o.codec, .num_workers = num_workers, .seed = o.seed, .step = o.step, .worker = o.worker});
      }));
  return kExitSuccess;
}

std::span<const float> tensor_of(const GradientFile& gradients, const Segment& segment) {
  return gradients.workers[0].span().subspan(static_cast<std::size_t>(segment.offset),
                                             static_cast<std::size_t>(segment.num_elements));
}

void write_npy(const fs::path& path, const GradientFile& gradients) {
  const Segment& segment = gradients.layout.segment(0);
  const std::string beginning = npy_beginning(NpyKind::kFloat, sizeof(float), segment.shape);
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(beginning)),
                                                           std::as_bytes(tensor_of(gradients, segment))};
  write_file_atomically(path, parts);
}

int run_decode(int argc, const char* const* argv) {
  std::string in, out;
  OptionSet options(
      "terngrad_codec decode: writes what an encoded gradient says, as fp32.\n"
      "Example: terngrad_codec decode gradient.tgrd decoded.npy");
  options.add_positional("IN", &in, "a file of terngrad_codec encode; all of it is checked");
  options.add_positional("OUT", &out, ".npy, for one tensor, or .safetensors");
  if (answer_questions(kCodecCommand, options, options.parse(argc, argv))) return kExitSuccess;
  const fs::path path(out);
  const bool is_npy = path.extension() == ".npy";
  if (!is_npy && path.extension() != ".safetensors") {
    TERNGRAD_THROW(UsageError, "OUT ", out, ": accepted: a name that ends in .npy or .safetensors");
  }
  require_writable(path);
  const DecodedFile decoded = decode_file(in);
  const Layout& layout = decoded.gradients.layout;
  if (is_npy) {
    if (layout.num_segments() != 1) {
      TERNGRAD_THROW(UsageError, "OUT ", out, ": '", in, "' has ", layout.num_segments(),
                     " tensors; accepted: a name that ends in .safetensors");
    }
    write_npy(path, decoded.gradients);
    return kExitSuccess;
  }
  std::vector<TensorRecord> records;
  for (const Segment& segment : layout.segments()) {
    records.push_back({.name = segment.name,
                       .type = TensorType::kF32,
                       .shape = segment.shape,
                       .bytes = std::as_bytes(tensor_of(decoded.gradients, segment))});
  }
  write_safetensors(path, records, {{"codec", decoded.keys.codec}});
  return kExitSuccess;
}

/// The command without a verb: --help, --version, the lists, or an error.
int run_alone(int argc, const char* const* argv) {
  OptionSet options(kUsage);
  declare_codec_list(options);
  if (argc > 1 && argv[1][0] != '-') {
    TERNGRAD_THROW(UsageError, "unknown command '", argv[1], "'; accepted: inspect, encode, decode");
  }
  if (answer_questions(kCodecCommand, options, options.parse(argc, argv))) return kExitSuccess;
  throw UsageError("a command is missing; accepted: inspect, encode, decode; --help says more");
}

}  // namespace

int run_codec(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "inspect") return run_inspect(argc - 1, argv + 1);
  if (verb == "encode") return run_encode(argc - 1, argv + 1);
  if (verb == "decode") return run_decode(argc - 1, argv + 1);
  return run_alone(argc, argv);
}

}  // namespace terngrad
