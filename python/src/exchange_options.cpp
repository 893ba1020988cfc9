#include "python/src/exchange_options.h"

#include <nanobind/stl/string.h>

#include <optional>

#include "kernels/runtime/errors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;

/// The value of a word. @throws InvalidArgument naming the option and the accepted words
template <class Enum>
Enum choose(const char* option, const std::string& word) {
  const std::optional<Enum> found = find_choice<Enum>(word);
  TERNGRAD_REQUIRE(found.has_value(), option, " '", word, "' is unknown; accepted: ", accepted_words<Enum>());
  return *found;
}

}  // namespace

CompressedAllReduceOptions exchange_options(const std::string& algorithm, const std::string& downlink_codec,
                                            const std::string& on_nonfinite, std::uint64_t seed, std::uint64_t run_id,
                                            int num_threads) {
  TERNGRAD_REQUIRE(num_threads >= 1, "num_threads must be at least 1, got ", num_threads);
  CompressedAllReduceOptions options;
  options.algorithm = choose<ExchangeAlgorithm>("algorithm", algorithm);
  options.downlink_codec = choose<DownlinkCodec>("downlink_codec", downlink_codec);
  options.on_nonfinite = choose<OnNonfinite>("on_nonfinite", on_nonfinite);
  options.seed = seed;
  options.run_id = run_id;
  options.num_threads = num_threads;
  return options;
}

nb::dict to_dict(const ExchangeReport& report) {
  const auto leg = [](const LegBytes& bytes) { return nb::make_tuple(bytes.sent, bytes.received); };
  nb::dict result;
  result["scalers"] = leg(report.scalers);
  result["gradient"] = leg(report.gradient);
  result["mean"] = leg(report.mean);
  result["sent_bytes"] = report.sent_bytes();
  result["received_bytes"] = report.received_bytes();
  result["measure_seconds"] = report.measure_seconds;
  result["encode_seconds"] = report.encode_seconds;
  result["wire_seconds"] = report.wire_seconds;
  result["decode_seconds"] = report.decode_seconds;
  result["skipped"] = report.skipped;
  result["nonfinite"] = report.nonfinite;
  return result;
}

}  // namespace terngrad::python
