// What was found by CodecInspection, human-readable and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/tensor/layout.h"
#include "trainers/inspect/codec_inspection.h"

namespace terngrad {

/// Gradients, and what codecs do to them.
struct Inspection {
  std::string source;                // file or folder
  std::vector<std::uint64_t> steps;  // numbers of the files, in order
  int num_workers = 1;
  Layout layout;
  std::uint64_t seed = 1;
  std::vector<InspectionResult> results;  // one per codec
};

/// A table with a row for each codec, and with `per_tensor` one for each tensor behind it. Specs that are too long for
/// their column have a line to themselves. No line is longer than `width`, which is taken to be at least 80, except for
/// one that is a name.
std::string to_text(const Inspection& inspection, bool per_tensor, int width);

/// All numbers: {"command", "version", "commit", "source", "steps", "num_workers", "num_elements", "seed", "codecs":
/// [{"codec", "canonical", "memory", <numbers of CodecDistortion>, "residual_norms", "encode_bytes_per_second",
/// "decode_bytes_per_second", "tensors": [{"name", "shape", <numbers>}]}]}. What is not a finite number is null; that
/// snr_db is null because nothing is lost, "lossless" says.
nlohmann::ordered_json to_json(const Inspection& inspection);

}  // namespace terngrad
