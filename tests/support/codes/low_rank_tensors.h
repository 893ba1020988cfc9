// Tensors for tests of low-rank exchanges (PowerSGD).
#pragma once

#include "compress/exchange/bucket_plan.h"
#include "support/exchanges.h"

namespace terngrad::testing {

/// Matrices of several shapes; "narrow" has too few columns for low rank, "ternary" has draws, "bias" is a vector.
inline Layout low_rank_layout() {
  Layout layout;
  layout.add("conv", {3, 3, 10, 50});
  layout.add("bias", {50});
  layout.add("wide", {12, 4100});
  layout.add("narrow", {600, 3});
  layout.add("ternary", {70, 90});
  layout.add("square", {40, 40});
  return layout;
}
inline const Buckets kLowRankWhole = {{0, 1, 2, 3, 4, 5}};
inline const Buckets kLowRankParts = {{5}, {4, 2}, {3}, {1, 0}};
/// Specs that differ in rank, warm start and factor type.
inline constexpr const char* kLowRankSpecs[] = {"powersgd", "powersgd:rank=1,warm_start=false",
                                                "powersgd:rank=3,factors=bf16"};

/// `spec` for all tensors of low_rank_layout() except "ternary".
inline CompressedAllReduceOptions low_rank_options(const char* spec,
                                                   ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAllGather) {
  CompressedAllReduceOptions options = options_of(algorithm);
  options.codecs.codec = spec;
  options.codecs.rules = {{"ternary", "ternary"}};
  return options;
}

}  // namespace terngrad::testing
