// ChosenCodec: the codecs that the options of terngrad_train select.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compress/plan/codec_plan.h"

namespace terngrad {

struct TrainOptions;

/// An option that sets a key of the codec ternary.
struct TernaryKeyOption {
  const char* option;
  const char* key;
};

inline constexpr std::array<TernaryKeyOption, 7> kTernaryKeyOptions = {{{"clip_factor", "clip_factor"},
                                                                        {"scaler", "scaler"},
                                                                        {"scaler_sharing", "sharing"},
                                                                        {"clip_scope", "clip_scope"},
                                                                        {"scaler_scope", "scope"},
                                                                        {"block_size", "block"},
                                                                        {"ternary_format", "format"}}};

/// The values of kTernaryKeyOptions by key, in the same order.
SpecOptions ternary_defaults(const TrainOptions& o);

/// A codec that some tensors may use.
struct ChosenCodec {
  std::string given;   // option and value: "--codec ternary:format=t5", "--grad_bits 1", "--codec_for a*=bf16"
  CodecSpec named;     // the given spec, with presets expanded
  std::string memory;  // memory of the given preset; empty: no preset, or it has no memory
  CodecSpec spec;      // complete spec; keys of ternary that were not given are those of kTernaryKeyOptions
  std::shared_ptr<const Codec> codec;  // codec of `spec` for --num_nodes workers

  bool is_ternary() const { return spec.name == "ternary"; }
  /// True if the given spec contains the key.
  bool names(std::string_view key) const;
  /// Value of a key in `spec`; empty for a key that has no effect there.
  std::string value(std::string_view key) const;
};

/// The codec of --codec or --grad_bits, then that of each --codec_for. Omits fp16, which is not a codec but an element
/// type for --exchange vendor.
/// @throws UsageError naming the option, for a rule without two parts or a spec that make_codec refuses
std::vector<ChosenCodec> chosen_codecs(const TrainOptions& o);

/// Value in the run's identity: the complete spec of the codec of tensors without a --codec_for rule, or "fp16".
std::string codec_identity(const TrainOptions& o);
/// Value of --codec_for in the run's identity: PATTERN=SPEC,PATTERN=SPEC.
std::string codec_rules_identity(const TrainOptions& o);

/// Codec options of the exchange. @throws UsageError as chosen_codecs
CodecPlanOptions codec_plan_options(const TrainOptions& o);

}  // namespace terngrad
