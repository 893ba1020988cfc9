// CublasLtApi: the functions of cuBLASLt that nets call, loaded when they are first asked for. Linked, the library
// would cost every start of a program 70 ms of relocations and 200 MB, also where there is no GPU. For sources that see
// the header of cuBLASLt only.
#pragma once

#include <cublasLt.h>

namespace terngrad::cuda {

/// The table of cuBLASLt's functions, each named as there without its prefix.
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

/// The library of the major version that this build has the header of. It stays loaded. Any thread may call it.
/// @throws NotSupported as load_cublas_lt, and tries again when it is called again
const CublasLtApi& cublas_lt_api();

/// The functions of a library, which stays loaded.
/// @param file  a path, or a name that the loader looks for
/// @throws NotSupported, saying what to install, if it cannot be loaded or lacks one of the functions
CublasLtApi load_cublas_lt(const char* file);

}  // namespace terngrad::cuda
