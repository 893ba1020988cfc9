// Advice: which codec pays on a link, with the numbers that say why.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compress/cost/exchange_cost.h"

namespace terngrad {

/// The rest of a step: computing the gradients of all workers.
struct AdviceCompute {
  std::int64_t measured_batch = 0;  // examples of all workers together, computed on CPUs; 0: not measured
  double seconds = 0;               // 0: not known, and exchanges are compared by themselves
};

/// What is exchanged, between whom, and how fast they are joined.
struct AdviceSubject {
  std::string name;  // of the net or layout
  std::int64_t num_elements = 0;
  int num_tensors = 0;
  ExchangeWorld world;
  LinkModel link;
  std::vector<LinkSample> samples;  // what `link` was fitted to; empty if it was given
  AdviceCompute compute = {};
  // What codecs were measured with, and are to be used with.
  double clip_factor = 0;        // of ternary
  bool quantize_logits = false;  // of all but fp32
};

/// One exchange.
struct AdviceRow {
  ExchangeCost cost;
  std::optional<Spread> spread;  // between what the exchange's time on this link lies, if it was measured repeatedly
  BreakEven against_fp32;        // against the baselines; of these themselves: never
  BreakEven against_bf16;
};

struct Advice {
  AdviceSubject subject;
  std::vector<AdviceRow> rows;
  // Indices of rows. A baseline is the exchange of fp32 (bf16) that takes least on this link.
  std::size_t fp32_baseline = 0;
  std::size_t bf16_baseline = 0;
  std::size_t recommended = 0;  // fp32_baseline: do not compress

  /// Rows whose spreads overlap with that of the recommended one: the measurement does not tell them apart.
  std::vector<std::size_t> ties = {};

  bool compress() const { return recommended != fp32_baseline; }
};

/// @param costs  of any exchanges, of kVendorExchange too; at least one of fp32 and one of bf16
/// @throws InvalidArgument if one of these is missing
Advice make_advice(AdviceSubject subject, const std::vector<ExchangeCost>& costs);

/// The last line of to_text: the exchange to use, or that gradients are not to be compressed, and why.
std::string recommendation_text(const Advice& advice);

/// A table with a line for each exchange: bytes on the wire for each step and worker (V / L of exchange_cost.h),
/// milliseconds of the processor, of a whole exchange on this link, and the bandwidths for which it pays. Then the
/// baselines and the recommendation, which is by the times of steps where it is known what computing takes.
std::string to_text(const Advice& advice);

/// All numbers, in bytes, seconds and bytes per second; an infinite bandwidth is null.
nlohmann::ordered_json to_json(const Advice& advice);

}  // namespace terngrad
