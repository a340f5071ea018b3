// Matrix products by cuBLASLt, for device/cuda.
//
// Each plan is a descriptor, three layouts and an algorithm: the heuristics' first that adds in fp32 alone (no split sums in the output's
// type, no TF32) and fits the workspace, which all plans of a device share. It runs once when it is made, so that its kernels are loaded
// before the first collective, and once more where rank 0, or an earlier run, chose another algorithm. Products of one device run on one
// stream. A bias is added, and of two-byte products GELU taken, in the same
// kernel.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto products, CudaProducts::Make(services));
//   ZS_ASSIGN_OR_RETURN(auto gemm, products->Plan({.m = 4, .k = 8, .n = 2}));
#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/gemm_choices.h"
#include "zeroshard/device/cuda/matmul_problem.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/gelu_gemm.h"
#include "zeroshard/device/gemm.h"

namespace zeroshard::device::cuda {

class CudaProducts {
 public:
  // `stream`: what plans run on when they are made; it and `device` outlive all plans. architecture: "sm_90".
  static absl::StatusOr<std::unique_ptr<CudaProducts>> Make(Device& device, CudaStream& stream,
                                                            std::string_view architecture);
  ~CudaProducts();
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  // Errors: as Device::PlanGemm; kUnimplemented where cuBLASLt has no algorithm.
  absl::StatusOr<std::unique_ptr<Gemm>> Plan(const GemmSpec& spec);

  // As Device::PlanGeluGemm. Errors: also kUnimplemented where cuBLASLt's GELU is not taken for it.
  absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGelu(const GemmSpec& spec);

  // As Device::ProductChoices. Taking runs the plans whose algorithm becomes another once more. Errors: also kFailedPrecondition where an
  // algorithm is none of its product's on this card.
  std::string Choices() const { return choices_.Text(); }
  absl::Status TakeChoices(std::string_view text);

 private:
  CudaProducts(Device& device, CudaStream& stream, cublasLtHandle_t handle, std::string library);

  struct Product {
    GemmSpec spec;
    Epilogue epilogue;
  };

  // For a bias of another dtype, or alignment, than cuBLASLt takes.
  absl::StatusOr<Buffer> OwnBias(const GemmSpec& spec);

  Device& device_;
  CudaStream& stream_;
  const cublasLtHandle_t handle_;
  Buffer workspace_;
  GemmChoices choices_;
  std::map<std::string, Product> planned_;  // by their names among the choices
};

}  // namespace zeroshard::device::cuda
