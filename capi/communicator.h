// Communicators of the C API.
#pragma once

#include <memory>

#include "capi/terngrad.h"
#include "compress/comm/communicator.h"

struct tg_communicator {
  std::shared_ptr<terngrad::Communicator> communicator;
};
