// CublasLtApi: the functions of cuBLASLt that nets call, loaded on first use: linking the library would cost every
// program start 70 ms of relocations and 200 MB, even without a GPU. Include it only in sources that may include
// cuBLASLt's header.
#pragma once

#include <cublasLt.h>

namespace terngrad::cuda {

/// Table of cuBLASLt's functions, named as there without the prefix.
struct CublasLtApi {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) get_status_string;
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) matmul_algo_cap_get_attribute;
  decltype(&cublasLtMatmulAlgoCheck) matmul_algo_check;
  decltype(&cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&cublasLtMatmulPreferenceCreate) matmul_preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) matmul_preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
};

/// Loads the library with the major version of this build's header, on first use and for good. Thread-safe.
/// @throws NotSupported as load_cublas_lt; a later call tries again
const CublasLtApi& cublas_lt_api();

/// Loads the functions of a library, which stays loaded.
/// @param file  a path, or a name that the dynamic loader searches for
/// @throws NotSupported, naming the package to install, if it cannot be loaded or lacks one of the functions
CublasLtApi load_cublas_lt(const char* file);

}  // namespace terngrad::cuda
