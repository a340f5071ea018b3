// A GemmSpec in cuBLASLt's terms: a descriptor and layouts, and the search for an algorithm.
//
// cuBLASLt's matrices are column-major, ours row-major: so C^T = B^T A^T is what it is asked for, B comes first, and the bias runs along
// its rows.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto problem, MatmulProblem::Make(spec));
//   ZS_RETURN_IF_ERROR(problem->Choose(handle, workspace_bytes, algorithm));
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device::cuda {

// "cuBLASLt: <doing>: <its words>". Errors: kUnimplemented where it supports no such thing; kInternal for the rest.
absl::Status BlasStatus(cublasStatus_t status, std::string_view doing);

// Bytes that every operand's address is a multiple of: what its rows allow, at most 16, the widest load.
int64_t OperandAlignment(int64_t row_elements, DType dtype);

// What becomes of a product before it is stored.
enum class Epilogue {
  kPlain,  // the bias is added, where the spec has one
  kGelu,   // and GELU taken; its input is stored too
};

class MatmulProblem {
 public:
  static absl::StatusOr<std::unique_ptr<MatmulProblem>> Make(const GemmSpec& spec, Epilogue epilogue = Epilogue::kPlain);
  ~MatmulProblem();
  MatmulProblem(const MatmulProblem&) = delete;
  MatmulProblem& operator=(const MatmulProblem&) = delete;

  // The first algorithm, in the heuristics' order, that does it. Errors: kUnimplemented where there is none.
  absl::Status Choose(cublasLtHandle_t handle, int64_t workspace_bytes, cublasLtMatmulAlgo_t& algorithm);

  // Whether an algorithm that was chosen elsewhere does it here. Errors: kFailedPrecondition.
  absl::Status Check(cublasLtHandle_t handle, int64_t workspace_bytes, const cublasLtMatmulAlgo_t& algorithm) const;

  struct Operands {
    const void* a;
    const void* b;
    void* c;
    const void* bias;            // of C's dtype
    void* gelu_input = nullptr;  // as C
  };
  cublasStatus_t Run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const Operands& operands,
                     void* workspace, int64_t workspace_bytes, cudaStream_t stream);

 private:
  MatmulProblem(const GemmSpec& spec, Epilogue epilogue) : spec_(spec), epilogue_(epilogue) {}
  absl::Status Describe();
  absl::Status DescribeEpilogue();

  const GemmSpec spec_;
  const Epilogue epilogue_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
};

}  // namespace zeroshard::device::cuda
