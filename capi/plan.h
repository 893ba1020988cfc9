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

/// Content of a tg_plan, shared by the encoders and exchanges made from it.
struct Plan {
  Layout layout;
  CodecPlan codecs;
  int num_workers;
  std::string memory;      // default memory, canonical spec
  std::uint64_t seed = 1;  // seed of the draws, for reading messages
};

}  // namespace terngrad::capi

struct tg_plan {
  std::shared_ptr<const terngrad::capi::Plan> plan;
};
