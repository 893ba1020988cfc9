// CodecPlan: which codec each tensor of a layout uses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// A rule `PATTERN=SPEC`: tensors whose name matches the pattern (`*` any run of characters, `?` any one character)
/// use that codec.
struct CodecRule {
  std::string pattern;
  std::string codec;  // a spec, as make_codec takes it
};

/// Splits at the first '=', so that the spec may have options and the pattern has none of that sign.
/// @throws InvalidArgument unless text is PATTERN=SPEC with both parts; what the spec says is not looked at
CodecRule parse_codec_rule(const std::string& text);

/// Whether `name` matches `pattern` as a whole.
bool matches_pattern(const std::string& pattern, const std::string& name);

struct CodecPlanOptions {
  std::string codec = "ternary";      // of tensors that no rule below names; a spec, as make_codec takes it
  std::vector<CodecRule> rules;       // first match wins, before the two below
  std::int64_t size_to_binarize = 1;  // tensors with fewer elements travel as fp32
  bool quantize_logits = false;       // else weights and biases of the logits travel as fp32
  CodecContext context = {};
};

/// The same options for that many workers: the number that a mean divides by, and whose sums a lane has to hold.
CodecPlanOptions with_workers(CodecPlanOptions options, int num_workers);

/// The codec of every tensor; one Codec object for each codec with the same options, or where its scalers depend on the
/// last dimension, for each of these.
class CodecPlan {
 public:
  /// @throws InvalidArgument for a spec that make_codec refuses, or a rule that matches no tensor (a typing error
  /// otherwise goes unseen)
  CodecPlan(const Layout& layout, const CodecPlanOptions& options);
  /// One codec for all tensors, which need not be in the registry: that of a program that brings its own.
  /// @param codec  made for the run's number of workers
  /// @throws InvalidArgument for one that is made for tensors of a number of columns
  static CodecPlan with_codec(const Layout& layout, std::shared_ptr<const Codec> codec);
  /// The codecs that `whole` has for some of its tensors. @param selection  whole's layout.select(segments)
  CodecPlan(const CodecPlan& whole, const Layout& selection, std::span<const int> segments);
  /// The same plan with factors, as fp32 or bf16, in place of tensors of low rank (Codec::low_rank). @param layout  of
  /// as many tensors
  static CodecPlan with_factors(const CodecPlan& whole, const Layout& layout, int num_workers);

  struct Group {
    std::string spec;  // the codec's, with all values (canonical_codec_spec); its name if it is not in the registry
    std::shared_ptr<const Codec> codec;
    std::vector<int> segments;  // in order
  };
  const std::vector<Group>& groups() const { return groups_; }
  /// Index into groups() of a tensor's codec.
  int group_of(int segment) const { return group_of_[static_cast<std::size_t>(segment)]; }
  const Codec& codec_of(int segment) const { return *groups_[static_cast<std::size_t>(group_of(segment))].codec; }

  /// Place of a tensor's scalers in a worker's list of all scalers: tensors in order of the layout.
  std::int64_t first_scaler(int segment) const { return first_scaler_[static_cast<std::size_t>(segment)]; }
  std::int64_t num_scalers() const { return first_scaler_.back(); }

  /// Hash of the layout, each tensor's codec and its options. Peers refuse each other when it differs.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  CodecPlan() = default;
  /// Adds the next tensor. @param make  gives its codec if no tensor before has one of that spec
  template <class MakeCodec>
  void add(const Segment& segment, const std::string& spec, const MakeCodec& make, Fingerprint& hash);

  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<std::int64_t> first_scaler_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace terngrad
