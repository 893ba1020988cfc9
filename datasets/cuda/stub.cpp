// Replaces the CUDA backend in builds without it. These functions are unreachable, since there is no device.
#include "datasets/cuda/copy_images.h"
#include "datasets/cuda/crop_images.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {
namespace {

[[noreturn]] void not_built(const char* what) {
  TERNGRAD_THROW(NotSupported, "[", what, "] this build has no CUDA backend (TERNGRAD_CUDA)");
}

}  // namespace

void crop_images(const CropTask&, const SlotRing&, const BatchTarget&, const Stream&) { not_built("crop_images"); }
void gather_images(const float*, std::int64_t, const BatchEntry*, const SlotRing&, const BatchTarget&, const Stream&) {
  not_built("gather_images");
}
void copy_slot(const float*, std::int64_t, const std::int32_t*, const SlotRing&, const BatchTarget&, const Stream&) {
  not_built("copy_slot");
}

}  // namespace terngrad::cuda
