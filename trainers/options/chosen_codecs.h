// The codecs that the options of terngrad_train ask for.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compress/plan/codec_plan.h"

namespace terngrad {

struct TrainOptions;

/// An option that is the long name of a key of ternary.
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

/// The values of these options, by key, in the same order.
SpecOptions ternary_defaults(const TrainOptions& o);

/// A codec that some tensors may use.
struct ChosenCodec {
  std::string given;   // the option that names it: "--codec ternary:format=t5", "--grad_bits 1", "--codec_for a*=bf16"
  CodecSpec named;     // as it was given, of a preset what that stands for
  std::string memory;  // of the preset that was given; empty: it names none, or one that says nothing of it
  CodecSpec spec;      // with all values: those of ternary's keys that were not given are the options with long names
  std::shared_ptr<const Codec> codec;  // for all workers

  bool is_ternary() const { return spec.name == "ternary"; }
  /// Whether the spec that was given has the key.
  bool names(std::string_view key) const;
  /// A value of `spec`; empty for a key without effect there.
  std::string value(std::string_view key) const;
};

/// What --codec or --grad_bits ask for, then what each --codec_for does. fp16, which is no codec but a type of elements
/// for --exchange vendor, is left out.
/// @throws UsageError that names the option, for a rule without two parts and a spec that make_codec refuses
std::vector<ChosenCodec> chosen_codecs(const TrainOptions& o);

/// In a run's identity: the codec of tensors that no rule names, as a spec with all its keys; "fp16" is none.
std::string codec_identity(const TrainOptions& o);
/// The same of --codec_for: PATTERN=SPEC,PATTERN=SPEC.
std::string codec_rules_identity(const TrainOptions& o);

/// Their part of the exchange's options. @throws UsageError as chosen_codecs
CodecPlanOptions codec_plan_options(const TrainOptions& o);

}  // namespace terngrad
