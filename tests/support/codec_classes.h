// Codec classes, the columns of the table "What may be combined" in docs/codecs.md.
#pragma once

#include <string>
#include <vector>

#include "compress/codec/codec_spec.h"
#include "compress/plan/codec_registry.h"

namespace terngrad::testing {

enum class CodecClass { kFloats, kOwnScalers, kSharedScalers, kVotes, kSparse, kLowRank };

struct ClassedSpec {
  const char* spec;
  CodecClass column;
};

/// At least one spec for every registered codec, and one for each option that changes its class.
inline constexpr ClassedSpec kClassedSpecs[] = {
    {"fp32", CodecClass::kFloats},
    {"bf16", CodecClass::kFloats},
    {"ternary:sharing=max", CodecClass::kSharedScalers},
    {"ternary:sharing=mean,scope=block,block=4096", CodecClass::kSharedScalers},
    {"ternary:sharing=max,rotate=1024", CodecClass::kSharedScalers},
    {"ternary:sharing=none", CodecClass::kOwnScalers},
    {"ternary:sharing=none,levels=asymmetric", CodecClass::kOwnScalers},
    {"qsgd", CodecClass::kOwnScalers},
    {"qsgd:sharing=max", CodecClass::kSharedScalers},
    {"qsgd:rotate=256", CodecClass::kOwnScalers},
    {"qsgd:sharing=max,norm=rms,rotate=1024", CodecClass::kSharedScalers},
    {"natural", CodecClass::kOwnScalers},
    {"sign", CodecClass::kOwnScalers},
    {"sign:scale=drive,rotate=4096", CodecClass::kOwnScalers},
    {"sign:reduce=vote,scale=l1", CodecClass::kVotes},
    {"onebit", CodecClass::kOwnScalers},
    {"eden", CodecClass::kOwnScalers},
    {"eden:levels=8,rotate=64", CodecClass::kOwnScalers},
    {"fp8", CodecClass::kOwnScalers},
    {"topk", CodecClass::kSparse},
    {"topk:scope=block,block=8192", CodecClass::kSparse},
    {"topk:stage_steps=2", CodecClass::kSparse},
    {"randomk", CodecClass::kSparse},
    {"randomk:scale=q,density=0.5", CodecClass::kSparse},
    {"powersgd", CodecClass::kLowRank},
    {"powersgd:rank=1,warm_start=false", CodecClass::kLowRank},
    {"powersgd:rank=2,factors=bf16", CodecClass::kLowRank},
};

/// A table cell: words of the error message, empty if the combination runs.
struct Cell {
  const char* refusal = "";
  bool runs() const { return refusal[0] == '\0'; }
};

/// A table row: one cell per codec class.
struct Cells {
  Cell floats, own, shared, votes, sparse, low_rank;
  const Cell& of(CodecClass column) const {
    switch (column) {
      case CodecClass::kFloats:
        return floats;
      case CodecClass::kOwnScalers:
        return own;
      case CodecClass::kSharedScalers:
        return shared;
      case CodecClass::kVotes:
        return votes;
      case CodecClass::kSparse:
        return sparse;
      default:
        return low_rank;
    }
  }
};

inline std::string codec_of(const ClassedSpec& classed) { return parse_codec_spec(classed.spec).name; }

/// Registered codecs that kClassedSpecs does not contain.
inline std::vector<std::string> unclassed_codecs() {
  std::vector<std::string> names;
  for (const std::string& name : codec_names()) {
    bool is_classed = false;
    for (const ClassedSpec& classed : kClassedSpecs) is_classed = is_classed || codec_of(classed) == name;
    if (!is_classed) names.push_back(name);
  }
  return names;
}

}  // namespace terngrad::testing
