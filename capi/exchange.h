// Definition of tg_exchange.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "capi/plan.h"
#include "capi/terngrad.h"
#include "compress/exchange/compressed_all_reduce.h"

struct tg_exchange {
  std::shared_ptr<const terngrad::capi::Plan> plan;
  std::string memory;  // canonical spec, with all options
  terngrad::CompressedAllReduce step;
  std::string nonfinite = {};  // backs tg_report.nonfinite of the last report
  std::atomic<bool> in_use = false;
};

namespace terngrad::capi {

/// Index of global worker `worker` among the local ones. @throws InvalidArgument for a worker of another rank
int local_number(const tg_exchange& exchange, int worker);

}  // namespace terngrad::capi
