// Layouts and plans of the C API.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "capi/terngrad.h"
#include "compress/plan/codec_plan.h"

struct tg_layout {
  terngrad::Layout layout;
};

namespace terngrad::capi {

/// What a tg_plan is: shared by all that is made of it.
struct Plan {
  Layout layout;
  CodecPlan codecs;
  int num_workers;
  std::string memory;      // by default, with all values
  std::uint64_t seed = 1;  // of the draws by which messages are read
};

}  // namespace terngrad::capi

struct tg_plan {
  std::shared_ptr<const terngrad::capi::Plan> plan;
};
