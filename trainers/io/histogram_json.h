// Histograms in histograms.jsonl.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainers/io/histogram.h"

namespace terngrad {

/// The fields "min", "max", "num", "nonfinite", "sum", "sum_squares", "limits" and "counts" of a line, as in Histogram,
/// with fewer buckets and digits so that a line stays below 4 KB: buckets grow by a tenth down to a thousandth of the
/// largest magnitude and are merged below (merge_small_buckets), and limits are rounded to 5 digits.
nlohmann::ordered_json histogram_json(const Histogram& histogram);

}  // namespace terngrad
