// Advice: which codec pays on a link, with the numbers that say why.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compress/exchange_cost.h"

namespace terngrad {

/// What is exchanged, between whom, and how fast they are joined.
struct AdviceSubject {
  std::string name;  // of the net or layout
  std::int64_t num_elements = 0;
  int num_tensors = 0;
  ExchangeWorld world;
  LinkModel link;
  std::vector<LinkSample> samples;  // what `link` was fitted to; empty if it was given
};

/// One codec.
struct AdviceRow {
  ExchangeCost cost;
  BreakEven against_fp32;  // of fp32 and bf16 themselves: never
  BreakEven against_bf16;
};

struct Advice {
  AdviceSubject subject;
  std::vector<AdviceRow> rows;
  std::size_t recommended = 0;  // index of a row; 0, fp32: do not compress
};

/// @param costs  that of fp32, of bf16, and of any others
/// @throws InvalidArgument unless the first two are these
Advice make_advice(AdviceSubject subject, const std::vector<ExchangeCost>& costs);

/// The last line of to_text: the codec to use, or that none is to be used, and why.
std::string recommendation_text(const Advice& advice);

/// A table with a line for each codec: bytes on the wire for each step and worker (V / L of exchange_cost.h),
/// milliseconds of the processor, of a whole exchange on this link, and the bandwidths for which it pays. Then the
/// recommendation.
std::string to_text(const Advice& advice);

/// All numbers, in bytes, seconds and bytes per second; an infinite bandwidth is null.
nlohmann::ordered_json to_json(const Advice& advice);

}  // namespace terngrad
