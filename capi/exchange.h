// What a tg_exchange is.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "capi/plan.h"
#include "capi/terngrad.h"
#include "compress/exchange/exchange_parts.h"

struct tg_exchange {
  std::shared_ptr<const terngrad::capi::Plan> plan;
  std::string memory;  // with all values
  terngrad::ExchangeParts parts;
  std::string nonfinite = {};  // of the last report
  std::atomic<bool> in_use = false;
};

namespace terngrad::capi {

/// A local worker's place among those of this rank. @throws InvalidArgument for a worker of another one
int local_number(const tg_exchange& exchange, int worker);

}  // namespace terngrad::capi
