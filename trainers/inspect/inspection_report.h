// Reports of CodecInspection as text and JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/tensor/layout.h"
#include "trainers/inspect/codec_inspection.h"

namespace terngrad {

/// Inspected gradients and the results of all codecs.
struct Inspection {
  std::string source;                // file or folder
  std::vector<std::uint64_t> steps;  // numbers of the files, in order
  int num_workers = 1;
  Layout layout;
  std::uint64_t seed = 1;
  std::vector<InspectionResult> results;  // one per codec
};

/// A table with a row per codec; with `per_tensor` another table per tensor. Specs that are too long for their column
/// have their own line. Lines have at most `width` characters (widths below 80 count as 80), except for names.
std::string to_text(const Inspection& inspection, bool per_tensor, int width);

/// All numbers: {"command", "version", "commit", "source", "steps", "num_workers", "num_elements", "seed", "codecs":
/// [{"codec", "canonical", "memory", <numbers of CodecDistortion>, "kept_bytes_per_element", "residual_norms",
/// "encode_bytes_per_second", "decode_bytes_per_second", "tensors": [{"name", "shape", <numbers>}]}]}. Non-finite
/// numbers are null.
nlohmann::ordered_json to_json(const Inspection& inspection);

}  // namespace terngrad
