// What the double of cuBLASLt keeps of a product and of its matrices.
//
// Example:
//   const MatmulDescription& product = MatmulDescription::Of(descriptor);
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace zeroshard::device::cuda::doubles {

struct MatmulDescription {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // as D's
  // GELU's input is kept here where the epilogue says so.
  void* auxiliary = nullptr;
  int64_t auxiliary_rows = 0;

  static MatmulDescription& Of(cublasLtMatmulDesc_t descriptor) { return *reinterpret_cast<MatmulDescription*>(descriptor); }
};

// A column-major matrix, whose columns start `leading` elements apart.
struct MatrixDescription {
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading = 0;

  static MatrixDescription& Of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<MatrixDescription*>(layout); }
};

// The algorithms that there are, as an algorithm's second word; its first is the problem's Fingerprint.
inline constexpr uint64_t kAddsInFp64 = 1, kAddsInFp32 = 2;

int64_t BytesOf(cudaDataType type);
// A number of the problem, by which the double knows whether an algorithm was chosen for it.
uint64_t Fingerprint(const MatmulDescription& product, const MatrixDescription& a, const MatrixDescription& b,
                     const MatrixDescription& d);

}  // namespace zeroshard::device::cuda::doubles
