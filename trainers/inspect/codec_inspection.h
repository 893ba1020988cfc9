// CodecInspection: measures a codec on recorded gradients: bits, distortion, residuals, time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainers/inspect/distortion_sums.h"
#include "trainers/inspect/gradient_file.h"

namespace terngrad {

/// A codec to inspect.
struct InspectedCodec {
  std::string given;      // as given: a spec or a preset
  std::string canonical;  // canonical_codec_spec
  std::string memory;     // canonical_memory, or "none"
};

/// Expands presets and checks specs. For a lossless codec the memory is "none".
/// @param spec    spec for make_codec
/// @param memory  "auto": the preset's memory, else error feedback if the codec wants it; or a spec for parse_memory
/// @throws InvalidArgument as make_codec and parse_memory
InspectedCodec inspected_codec(const std::string& spec, const std::string& memory);

/// Results of an inspection of one codec.
struct InspectionResult {
  InspectedCodec codec;
  CodecDistortion all;
  std::vector<CodecDistortion> tensors;     // one per tensor
  double kept_bytes = 0;                    // of each element that a worker's memory keeps
  std::vector<double> residual_norms = {};  // CodecDistortion::residual_norm after each step; empty without a memory
  double encode_bytes_per_second = 0;       // fp32 bytes per second, one thread, fastest worker's step: scalers, codes,
                                            // checksums
  double decode_bytes_per_second = 0;       // likewise: verifying and decoding the message
};

/// Runs a codec over steps in order. Messages are those that the workers would send, with shared scalers if the codec
/// shares them. Sums are in float64 in the order of elements. Results, except for times, are deterministic.
class CodecInspection {
 public:
  /// @param layout, num_workers  equal in all steps; the layout is kept by reference
  /// @param seed                 seed of draws
  /// @throws InvalidArgument for a codec or memory that does not support these tensors or the other
  CodecInspection(const InspectedCodec& codec, const Layout& layout, int num_workers, std::uint64_t seed);
  ~CodecInspection();
  CodecInspection(CodecInspection&&) noexcept;

  /// Encodes and decodes the gradients of a step. @param step  number that keys the draws, from 0
  /// @throws DataError naming the tensor, for values that are too large for the codec
  void add(const GradientFile& gradients, std::uint64_t step);

  /// Results of the added steps, at least one.
  InspectionResult result() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace terngrad
