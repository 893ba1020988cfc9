// Conversion of exchange options from Python and of reports to Python, for CPUs and GPUs.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "compress/exchange/all_reduce_options.h"
#include "compress/route/exchange_report.h"

namespace terngrad::python {

/// Parses the options. @throws InvalidArgument naming the option and the accepted values
CompressedAllReduceOptions exchange_options(const std::string& algorithm, const std::string& downlink_codec,
                                            const std::string& on_nonfinite, std::uint64_t seed, std::uint64_t run_id,
                                            int num_threads);
/// The fields of terngrad.Report.
nanobind::dict to_dict(const ExchangeReport& report);

}  // namespace terngrad::python
