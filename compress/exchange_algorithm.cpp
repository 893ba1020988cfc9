#include "compress/exchange_algorithm.h"

#include <algorithm>

#include "kernels/errors.h"

namespace terngrad {

std::string to_string(ExchangeAlgorithm algorithm) {
  switch (algorithm) {
    case ExchangeAlgorithm::kAllGather:
      return "all_gather";
    case ExchangeAlgorithm::kScatterReduce:
      return "scatter_reduce";
    case ExchangeAlgorithm::kIntegerSum:
      return "integer_sum";
    case ExchangeAlgorithm::kAuto:
      return "auto";
  }
  TERNGRAD_THROW(InvalidArgument, "[exchange] unknown algorithm ", static_cast<int>(algorithm));
}

ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ReturnCodec return_codec, const Layout& layout,
                                   const CodecPlan& plan, int num_workers) {
  if (asked == ExchangeAlgorithm::kIntegerSum) {
    const bool any_summable =
        std::ranges::any_of(plan.groups(), [](const CodecPlan::Group& g) { return g.codec->traits().summable; });
    TERNGRAD_REQUIRE(any_summable,
                     "[exchange] integer_sum needs a codec whose codes add up as integers for at least one tensor: "
                     "ternary with scaler_sharing max or mean");
  }
  if (asked != ExchangeAlgorithm::kAuto) return asked;
  if (return_codec == ReturnCodec::kSums) return ExchangeAlgorithm::kScatterReduce;
  double bits = 0;
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    bits +=
        plan.codec_of(segment).traits().bits_per_element * static_cast<double>(layout.segment(segment).num_elements);
  }
  const double n = num_workers;
  const double gathered = (n - 1) * bits;
  const double scattered = (n - 1) / n * (bits + 32.0 * static_cast<double>(layout.num_elements()));
  return gathered <= scattered ? ExchangeAlgorithm::kAllGather : ExchangeAlgorithm::kScatterReduce;
}

}  // namespace terngrad
