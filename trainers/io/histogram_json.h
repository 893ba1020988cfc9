// The JSON form of histograms in histograms.jsonl.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainers/io/histogram.h"

namespace terngrad {

/// The fields "min", "max", "num", "nonfinite", "sum", "sum_squares", "limits" and "counts", as in Histogram. To stay
/// below 4 KB, buckets below a thousandth of the largest magnitude are merged (merge_small_buckets) and limits are
/// rounded to 5 digits.
nlohmann::ordered_json histogram_json(const Histogram& histogram);

}  // namespace terngrad
