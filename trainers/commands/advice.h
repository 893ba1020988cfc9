// Advice: recommends a codec for a link, with the numbers behind it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compress/cost/exchange_cost.h"

namespace terngrad {

/// Time to compute the gradients of all workers.
struct AdviceCompute {
  std::int64_t measured_batch = 0;  // joint batch of all workers, measured on CPUs; 0: not measured
  double seconds = 0;               // 0: unknown; only exchanges are compared
};

/// The tensors, processes and link that the advice is for.
struct AdviceSubject {
  std::string name;  // name of the net or layout
  std::int64_t num_elements = 0;
  int num_tensors = 0;
  ExchangeWorld world;
  LinkModel link;
  std::vector<LinkSample> samples;  // samples that `link` was fitted to; empty if it was given
  AdviceCompute compute = {};
  // Options that the codecs were measured with, and must be used with.
  double clip_factor = 0;        // for ternary
  bool quantize_logits = false;  // for all codecs except fp32
};

/// Cost of one exchange.
struct AdviceRow {
  ExchangeCost cost;
  std::optional<Spread> spread;  // range of the exchange's time on this link, if it was measured repeatedly
  BreakEven against_fp32;        // comparison with the baselines; for the baselines themselves: never
  BreakEven against_bf16;
};

/// The exchanges of a subject and the recommended one.
struct Advice {
  AdviceSubject subject;
  std::vector<AdviceRow> rows;
  // Indices of rows. A baseline is the fastest exchange of fp32 (bf16) on this link.
  std::size_t fp32_baseline = 0;
  std::size_t bf16_baseline = 0;
  std::size_t recommended = 0;  // equal to fp32_baseline: do not compress

  /// Rows whose spread overlaps with that of the recommended row: the measurement cannot distinguish them.
  std::vector<std::size_t> ties = {};

  bool compress() const { return recommended != fp32_baseline; }
};

/// "groups of 4".
std::string groups_text(int workers_per_group);

/// Chooses the fastest exchange. @param costs  any exchanges, those of groups and kVendorExchange too; at least one of
/// fp32 and one of bf16
/// @throws InvalidArgument without fp32 or bf16
Advice make_advice(AdviceSubject subject, const std::vector<ExchangeCost>& costs);

/// The last line of to_text: the exchange to use or the advice not to compress, with the reason.
std::string recommendation_text(const Advice& advice);

/// A table with a line per exchange: bytes on the wire per step and worker (V / L of exchange_cost.h), milliseconds of
/// the processor and of a whole exchange on this link, and the bandwidths for which it pays. Then the baselines and the
/// recommendation, which compares whole steps if the compute time is known.
std::string to_text(const Advice& advice);

/// All numbers, in bytes, seconds and bytes per second; an infinite bandwidth is null.
nlohmann::ordered_json to_json(const Advice& advice);

}  // namespace terngrad
