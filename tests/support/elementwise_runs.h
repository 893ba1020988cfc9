// Lengths, alignments and targets with which elementwise kernels are compared with their references.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "kernels/runtime/device.h"
#include "support/simd_targets.h"

namespace terngrad::testing {

/// Calls body(n, start, stream) for lengths n around vector and chunk sizes, aligned and misaligned first elements
/// `start`, 1 and 3 threads and all SIMD targets of the machine, until a fatal failure.
template <class Body>
void for_each_elementwise_run(const Body& body) {
  for_each_target([&](const std::string&) {
    for (const int threads : {1, 3}) {
      for (const std::size_t n : {0u, 1u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 100u, 50000u}) {
        for (const std::size_t start : {0u, 1u, 5u}) {
          Stream stream(Device::cpu(), threads);
          body(n, start, stream);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

}  // namespace terngrad::testing
