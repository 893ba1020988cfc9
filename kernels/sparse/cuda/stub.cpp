// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/runtime/cuda/not_built.h"
#include "kernels/sparse/cuda/drawn_payload.h"
#include "kernels/sparse/cuda/sparse_encoder.h"
#include "kernels/sparse/cuda/sparse_sum.h"

namespace terngrad::cuda {

std::shared_ptr<DrawnRunner> make_drawn_runner(const Device&) { not_built("drawn elements"); }
std::shared_ptr<SparseEncodeRunner> make_sparse_encode_runner(const Device&) { not_built("top_k"); }
std::shared_ptr<SparseSumRunner> make_sparse_sum_runner(const Device&) { not_built("sparse sum"); }

}  // namespace terngrad::cuda
