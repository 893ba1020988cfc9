#include "compress/comm/all_reduce_bytes.h"

namespace terngrad {

std::int64_t all_reduce_bytes(std::int64_t num_bytes, int num_nodes) {
  return num_bytes * 2 * (num_nodes - 1) / num_nodes;
}

}  // namespace terngrad
