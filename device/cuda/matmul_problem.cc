#include "zeroshard/device/cuda/matmul_problem.h"

#include <array>
#include <cstddef>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

// What a bias, and GELU's input, are promised to be aligned to; see cuda_gemm.cc.
constexpr uintptr_t kAlignment = 16;

cudaDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kBfloat16) return CUDA_R_16BF;
  return dtype == DType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

template <class T>
absl::Status Set(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return BlasStatus(cublasLtMatmulDescSetAttribute(to, attribute, &value, sizeof value), "describing a product");
}
template <class T>
absl::Status Set(cublasLtMatmulPreference_t to, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  return BlasStatus(cublasLtMatmulPreferenceSetAttribute(to, attribute, &value, sizeof value), "asking for an algorithm");
}

// A row-major [rows, columns] is a column-major [columns, rows].
absl::Status MakeLayout(cublasLtMatrixLayout_t& layout, DType dtype, int64_t rows, int64_t columns, int64_t stride) {
  return BlasStatus(cublasLtMatrixLayoutCreate(&layout, TypeOf(dtype), static_cast<uint64_t>(columns),
                                               static_cast<uint64_t>(rows), stride),
                    "describing a matrix");
}

}  // namespace

absl::Status BlasStatus(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const bool lacks = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
  return absl::Status(lacks ? absl::StatusCode::kUnimplemented : absl::StatusCode::kInternal,
                      absl::StrCat("cuBLASLt: ", std::string(doing), ": ", cublasLtGetStatusString(status)));
}

int64_t OperandAlignment(int64_t row_elements, DType dtype) {
  constexpr int64_t kWidest = 16;
  const int64_t row_bytes = row_elements * SizeOf(dtype);
  int64_t alignment = kWidest;
  while (row_bytes % alignment != 0) alignment /= 2;
  return alignment;
}

absl::StatusOr<std::unique_ptr<MatmulProblem>> MatmulProblem::Make(const GemmSpec& spec, Epilogue epilogue) {
  auto problem = std::unique_ptr<MatmulProblem>(new MatmulProblem(spec, epilogue));
  ZS_RETURN_IF_ERROR(problem->Describe());
  return problem;
}

MatmulProblem::~MatmulProblem() {
  if (product_ != nullptr) cublasLtMatmulDescDestroy(product_);
  for (const cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
}

// CUBLAS_COMPUTE_32F: fp32 sums of fp32 products; TF32 would be another type.
absl::Status MatmulProblem::Describe() {
  ZS_RETURN_IF_ERROR(
      BlasStatus(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product"));
  ZS_RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_TRANSA, spec_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
  ZS_RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_TRANSB, spec_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
  ZS_RETURN_IF_ERROR(DescribeEpilogue());
  const int64_t b_rows = spec_.transpose_b ? spec_.n : spec_.k, b_columns = spec_.transpose_b ? spec_.k : spec_.n;
  ZS_RETURN_IF_ERROR(MakeLayout(a_, spec_.input, spec_.a_rows(), spec_.a_columns(), spec_.a_row_stride()));
  ZS_RETURN_IF_ERROR(MakeLayout(b_, spec_.input, b_rows, b_columns, b_columns));
  return MakeLayout(c_, spec_.output, spec_.m, spec_.n, spec_.c_row_stride());
}

// Of addresses only the alignment is looked at before a run.
absl::Status MatmulProblem::DescribeEpilogue() {
  if (!spec_.bias) return absl::OkStatus();
  const bool gelu = epilogue_ == Epilogue::kGelu;
  ZS_RETURN_IF_ERROR(
      Set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS));
  ZS_RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(TypeOf(spec_.output))));
  ZS_RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(kAlignment)));
  if (!gelu) return absl::OkStatus();
  ZS_RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, spec_.n));
  return Set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, reinterpret_cast<void*>(kAlignment));
}

absl::Status MatmulProblem::Choose(cublasLtHandle_t handle, int64_t workspace_bytes, cublasLtMatmulAlgo_t& algorithm) {
  constexpr int kAsked = 8;
  cublasLtMatmulPreference_t wanted = nullptr;
  ZS_RETURN_IF_ERROR(BlasStatus(cublasLtMatmulPreferenceCreate(&wanted), "asking for an algorithm"));
  const auto drop = absl::MakeCleanup([wanted] { cublasLtMatmulPreferenceDestroy(wanted); });
  ZS_RETURN_IF_ERROR(Set(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes)));
  // The others add partial sums in the output's type.
  ZS_RETURN_IF_ERROR(Set(wanted, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  const auto a = OperandAlignment(spec_.a_row_stride(), spec_.input);
  const auto b = OperandAlignment(spec_.transpose_b ? spec_.k : spec_.n, spec_.input);
  const auto c = OperandAlignment(spec_.c_row_stride(), spec_.output);
  ZS_RETURN_IF_ERROR(Set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(b)));
  ZS_RETURN_IF_ERROR(Set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(a)));
  ZS_RETURN_IF_ERROR(Set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(c)));
  ZS_RETURN_IF_ERROR(Set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(c)));
  std::array<cublasLtMatmulHeuristicResult_t, kAsked> found = {};
  int count = 0;
  const std::string doing = absl::StrCat("an algorithm for the ", device::Describe(spec_));
  ZS_RETURN_IF_ERROR(BlasStatus(
      cublasLtMatmulAlgoGetHeuristic(handle, product_, b_, a_, c_, c_, wanted, kAsked, found.data(), &count), doing));
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = found[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > static_cast<size_t>(workspace_bytes)) continue;
    algorithm = result.algo;
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat("cuBLASLt: ", doing, ": none"));
}

absl::Status MatmulProblem::Check(cublasLtHandle_t handle, int64_t workspace_bytes,
                                  const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, product_, b_, a_, c_, c_, &algorithm, &result);
  const bool fits = result.workspaceSize <= static_cast<size_t>(workspace_bytes);
  if (status == CUBLAS_STATUS_SUCCESS && fits) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the algorithm that was chosen for the ", device::Describe(spec_),
      " is none of its on this card: ", fits ? cublasLtGetStatusString(status) : "it wants a larger workspace"));
}

cublasStatus_t MatmulProblem::Run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const Operands& operands,
                                  void* workspace, int64_t workspace_bytes, cudaStream_t stream) {
  if (spec_.bias) {
    const cublasStatus_t set =
        cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands.bias, sizeof operands.bias);
    if (set != CUBLAS_STATUS_SUCCESS) return set;
  }
  if (epilogue_ == Epilogue::kGelu) {
    const cublasStatus_t set = cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                              &operands.gelu_input, sizeof operands.gelu_input);
    if (set != CUBLAS_STATUS_SUCCESS) return set;
  }
  const float one = 1, kept = spec_.accumulate ? 1 : 0;
  return cublasLtMatmul(handle, product_, &one, operands.b, b_, operands.a, a_, &kept, operands.c, c_, operands.c, c_,
                        &algorithm, workspace, static_cast<size_t>(workspace_bytes), stream);
}

}  // namespace zeroshard::device::cuda
