#include "nets/cuda/cublas_lt_api.h"

#include <dlfcn.h>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {
namespace {

#define TERNGRAD_TEXT_OF(number) #number
#define TERNGRAD_FILE_OF_MAJOR(major) "libcublasLt.so." TERNGRAD_TEXT_OF(major)
// A complete string literal, which scripts/gpu/bundle.sh reads from the binary.
constexpr const char* kFile = TERNGRAD_FILE_OF_MAJOR(CUBLAS_VER_MAJOR);

[[noreturn]] void refuse(const char* file) {
  const char* const reason = ::dlerror();
  TERNGRAD_THROW(NotSupported, "cannot load ", file, ", which multiplies matrices on GPUs (",
                 reason == nullptr ? "the loader gives no reason" : reason, "): install cuBLAS of CUDA ",
                 CUBLAS_VER_MAJOR, ", or add its folder to LD_LIBRARY_PATH");
}

/// Loads the function `name`.
template <class Function>
void find(void* library, const char* file, const char* name, Function& function) {
  // POSIX: dlsym returns functions as void*.
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) refuse(file);
}

}  // namespace

CublasLtApi load_cublas_lt(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(file);
  CublasLtApi api{};
  find(library, file, "cublasLtCreate", api.create);
  find(library, file, "cublasLtDestroy", api.destroy);
  find(library, file, "cublasLtGetStatusString", api.get_status_string);
  find(library, file, "cublasLtGetVersion", api.get_version);
  find(library, file, "cublasLtMatmul", api.matmul);
  find(library, file, "cublasLtMatmulAlgoCapGetAttribute", api.matmul_algo_cap_get_attribute);
  find(library, file, "cublasLtMatmulAlgoCheck", api.matmul_algo_check);
  find(library, file, "cublasLtMatmulAlgoGetHeuristic", api.matmul_algo_get_heuristic);
  find(library, file, "cublasLtMatmulDescCreate", api.matmul_desc_create);
  find(library, file, "cublasLtMatmulDescDestroy", api.matmul_desc_destroy);
  find(library, file, "cublasLtMatmulDescSetAttribute", api.matmul_desc_set_attribute);
  find(library, file, "cublasLtMatmulPreferenceCreate", api.matmul_preference_create);
  find(library, file, "cublasLtMatmulPreferenceDestroy", api.matmul_preference_destroy);
  find(library, file, "cublasLtMatmulPreferenceSetAttribute", api.matmul_preference_set_attribute);
  find(library, file, "cublasLtMatrixLayoutCreate", api.matrix_layout_create);
  find(library, file, "cublasLtMatrixLayoutDestroy", api.matrix_layout_destroy);
  return api;
}

const CublasLtApi& cublas_lt_api() {
  static const CublasLtApi api = load_cublas_lt(kFile);
  return api;
}

}  // namespace terngrad::cuda
