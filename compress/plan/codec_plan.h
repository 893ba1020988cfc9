// CodecPlan: the codec of each tensor of a layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// A rule `PATTERN=SPEC`: the codec of tensors whose name matches the pattern (`*` matches any run of characters, `?`
/// any single character).
struct CodecRule {
  std::string pattern;
  std::string codec;  // spec, see make_codec
};

/// Splits at the first '=': the spec may contain further '=', the pattern none.
/// @throws InvalidArgument unless text is PATTERN=SPEC with both parts; does not check the spec
CodecRule parse_codec_rule(const std::string& text);

/// True if `pattern` matches the whole of `name`.
bool matches_pattern(const std::string& pattern, const std::string& name);

/// Options that decide the codec of each tensor.
struct CodecPlanOptions {
  std::string codec = "ternary";      // spec for tensors that no rule below matches, see make_codec
  std::vector<CodecRule> rules;       // first match wins, before size_to_binarize and quantize_logits
  std::int64_t size_to_binarize = 1;  // tensors with fewer elements use fp32
  bool quantize_logits = false;       // false: weights and biases of the logits layer use fp32
  CodecContext context = {};
};

/// The same options for num_workers workers, by which means are divided and for whose sums lanes are sized.
CodecPlanOptions with_workers(CodecPlanOptions options, int num_workers);

/// The codec of every tensor. Tensors with equal canonical specs share one Codec object; if its scalers depend on the
/// last dimension, tensors with equal last dimensions do.
class CodecPlan {
 public:
  /// @throws InvalidArgument for a spec that make_codec refuses, or a rule that matches no tensor, which is probably a
  /// typing error
  CodecPlan(const Layout& layout, const CodecPlanOptions& options);
  /// One codec for all tensors, which need not be in the registry, for programs with a codec of their own.
  /// @param codec  made for the run's number of workers
  /// @throws InvalidArgument if the codec is made for a specific number of columns
  static CodecPlan with_codec(const Layout& layout, std::shared_ptr<const Codec> codec);
  /// The plan `whole` restricted to some of its tensors. @param selection  whole's layout.select(segments)
  CodecPlan(const CodecPlan& whole, const Layout& selection, std::span<const int> segments);
  /// The same plan with fp32 or bf16 factors in place of low-rank tensors (Codec::low_rank). @param layout  with the
  /// same number of tensors
  static CodecPlan with_factors(const CodecPlan& whole, const Layout& layout, int num_workers);

  /// First steps of the stages of all codecs (Codec::stages), ascending from 0.
  std::vector<std::uint64_t> stages() const;
  /// The plan with the codecs of a step (Codec::at_step), and a fingerprint of its own.
  CodecPlan at_step(std::uint64_t step) const;

  /// Tensors with the same codec.
  struct Group {
    std::string spec;  // canonical spec (canonical_codec_spec); the codec's name if it is not in the registry
    std::shared_ptr<const Codec> codec;
    std::vector<int> segments;  // tensor indices, in order
  };
  const std::vector<Group>& groups() const { return groups_; }
  /// Index into groups() for a tensor.
  int group_of(int segment) const { return group_of_[static_cast<std::size_t>(segment)]; }
  const Codec& codec_of(int segment) const { return *groups_[static_cast<std::size_t>(group_of(segment))].codec; }

  /// Index of a tensor's first scaler in a worker's list of all scalers, which is in layout order.
  std::int64_t first_scaler(int segment) const { return first_scaler_[static_cast<std::size_t>(segment)]; }
  std::int64_t num_scalers() const { return first_scaler_.back(); }

  /// Hash of the layout, each tensor's codec and its options. Peers refuse messages with another fingerprint.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  CodecPlan() = default;
  /// Adds the next tensor. @param make  creates its codec if no earlier tensor has the same spec
  template <class MakeCodec>
  void add(const Segment& segment, const std::string& spec, const MakeCodec& make, Fingerprint& hash);

  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<std::int64_t> first_scaler_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace terngrad
