// What a codec does to gradients that are there: bits, distortion, what is kept from step to step, time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainers/inspect/distortion_sums.h"
#include "trainers/inspect/gradient_file.h"

namespace terngrad {

/// A codec to be inspected.
struct InspectedCodec {
  std::string given;      // as it was asked for: a spec or a preset
  std::string canonical;  // canonical_codec_spec
  std::string memory;     // canonical_memory, "none" if nothing is kept
};

/// Expands presets and checks specs. Of a codec that loses nothing the memory is "none".
/// @param spec    as make_codec takes it
/// @param memory  "auto": what the preset has, else what the codec is made for; or as parse_memory
/// @throws InvalidArgument as make_codec and parse_memory
InspectedCodec inspected_codec(const std::string& spec, const std::string& memory);

struct InspectionResult {
  InspectedCodec codec;
  CodecDistortion all;
  std::vector<CodecDistortion> tensors;     // one per tensor
  std::vector<double> residual_norms = {};  // with a memory: after each step
  double encode_bytes_per_second = 0;       // of fp32, one thread, of the fastest worker's step: scalers, codes,
                                            // checksums
  double decode_bytes_per_second = 0;       // likewise: checking the message, and decoding
};

/// Runs a codec over steps in order. The messages are those that workers would send; where they share scalers, each
/// has all. Sums in float64 in order of elements. Except for times equal input gives equal results.
class CodecInspection {
 public:
  /// @param layout, num_workers  of all steps; the layout is kept by reference
  /// @param seed                 of draws
  /// @throws InvalidArgument for a codec or memory that cannot be used with these tensors, or together
  CodecInspection(const InspectedCodec& codec, const Layout& layout, int num_workers, std::uint64_t seed);
  ~CodecInspection();
  CodecInspection(CodecInspection&&) noexcept;

  /// @param step  that keys the draws, from 0
  /// @throws DataError naming the tensor, for numbers that are too large for the codec
  void add(const GradientFile& gradients, std::uint64_t step);

  /// Of what was added: one step or more.
  InspectionResult result() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace terngrad
