// Replaces nets/cuda/libraries.cpp in the emulation.
#include "nets/cuda/libraries.h"

#include <cuda_runtime.h>

#include <utility>

#include "kernels/runtime/errors.h"
#include "tests/simt/nets/stand_in.h"

namespace terngrad::cuda {

struct Libraries::Handles {};
Libraries::Libraries(const Stream& stream) : stream_(stream), handles_(std::make_shared<Handles>()) {
  TERNGRAD_REQUIRE(stream.device().is_cuda(), "[Libraries] cuDNN and cuBLASLt need the stream of a GPU");
}

std::string Libraries::why_missing() { return testing::missing_library; }

std::string Libraries::versions() { return "plain loops"; }

std::string Libraries::versions_of_build() { return versions(); }

}  // namespace terngrad::cuda

namespace terngrad::testing {

void submit(const Stream& stream, std::function<void()> work) {
  simt::submit(static_cast<cudaStream_t>(stream.native()), std::move(work));
}

}  // namespace terngrad::testing
