#include "zeroshard/device/cuda/cuda_gemm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cuda/matmul_problem.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device::cuda {
namespace {

// What NVIDIA recommends from sm_90 on. The choice of an algorithm depends on it, so it is one for all cards.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

void* Pointer(const Array& array) { return reinterpret_cast<void*>(array.address()); }

class CudaGemm final : public Gemm {
 public:
  CudaGemm(const GemmSpec& spec, cublasLtHandle_t handle, std::unique_ptr<MatmulProblem> problem, const GemmChoice& choice,
           Array workspace, Buffer bias)
      : spec_(spec),
        handle_(handle),
        problem_(std::move(problem)),
        choice_(choice),
        workspace_(workspace),
        bias_(std::move(bias)) {}

  const GemmSpec& spec() const override { return spec_; }

  void Run(Stream& stream, In a, In b, InOut c, In bias) override {
    CheckOperands(spec_, a.array, b.array, c.array, bias.array);
    if (c.array.empty()) return;
    CudaStream& on = CudaStream::Of(stream);
    const cudaStream_t native = on.native();
    const MatmulProblem::Operands operands{.a = Pointer(a.array),
                                           .b = Pointer(b.array),
                                           .c = Pointer(c.array),
                                           .bias = spec_.bias ? Pointer(BiasFor(stream, bias.array)) : nullptr};
    const VendorScope scope;
    const cublasStatus_t status =
        problem_->Run(handle_, choice_.algorithm, operands, Pointer(workspace_), workspace_.bytes(), native);
    if (status != CUBLAS_STATUS_SUCCESS) on.errors().Keep(BlasStatus(status, Describe(spec_)));
  }

 private:
  // cuBLASLt takes a bias of C's dtype alone, and loads 16 bytes of it at once.
  Array BiasFor(Stream& stream, const Array& bias) {
    if (bias.dtype() == spec_.output && bias.address() % 16 == 0) return bias;
    const Array own = bias_.array(spec_.output).Slice(0, spec_.n);
    Elementwise& kernels = stream.device().elementwise();
    if (bias.dtype() == spec_.output) {
      kernels.Copy(stream, bias, own);
    } else {
      kernels.Convert(stream, bias, own);
    }
    return own;
  }

  const GemmSpec spec_;
  const cublasLtHandle_t handle_;
  const std::unique_ptr<MatmulProblem> problem_;
  const GemmChoice& choice_;
  const Array workspace_;
  const Buffer bias_;  // [n], where there is one
};

// On memory of no meaning, one stretch for all three matrices.
absl::Status RunOnce(Gemm& gemm, Device& device, CudaStream& stream) {
  const GemmSpec& s = gemm.spec();
  if (s.m * s.n == 0) return absl::OkStatus();
  const int64_t elements = std::max({s.m * s.k, s.k * s.n, s.m * s.n, s.n});
  ZS_ASSIGN_OR_RETURN(const Buffer memory, device.Allocate(4 * elements, Use::kActivations, "a product's first run"));
  const auto first = [&](DType dtype, int64_t count) { return memory.array(dtype).Slice(0, count); };
  gemm.Run(stream, first(s.input, s.m * s.k), first(s.input, s.k * s.n), first(s.output, s.m * s.n),
           s.bias ? In(first(s.bias_dtype, s.n)) : In());
  stream.Synchronize();
  return device.status();
}

}  // namespace

CudaProducts::CudaProducts(Device& device, CudaStream& stream, cublasLtHandle_t handle, std::string library)
    : device_(device), stream_(stream), handle_(handle), choices_(std::move(library)) {}

CudaProducts::~CudaProducts() { cublasLtDestroy(handle_); }

absl::StatusOr<std::unique_ptr<CudaProducts>> CudaProducts::Make(Device& device, CudaStream& stream,
                                                                 std::string_view architecture) {
  static_cast<void>(stream.native());  // makes the device this thread's
  const VendorScope scope;
  cublasLtHandle_t handle = nullptr;
  ZS_RETURN_IF_ERROR(BlasStatus(cublasLtCreate(&handle), "starting"));
  std::string library = absl::StrCat("cuBLASLt ", cublasLtGetVersion(), " on ", std::string(architecture));
  auto products = std::unique_ptr<CudaProducts>(new CudaProducts(device, stream, handle, std::move(library)));
  ZS_ASSIGN_OR_RETURN(products->workspace_, device.Allocate(kWorkspaceBytes, Use::kActivations, "cuBLASLt's workspace"));
  return products;
}

absl::StatusOr<std::unique_ptr<Gemm>> CudaProducts::Plan(const GemmSpec& spec) {
  ZS_RETURN_IF_ERROR(CheckSpec(spec));
  static_cast<void>(stream_.native());
  const VendorScope scope;
  GemmChoice& choice = choices_.Of(Describe(spec));
  std::unique_ptr<MatmulProblem> problem;
  if (spec.m * spec.n > 0) {
    ZS_ASSIGN_OR_RETURN(problem, MatmulProblem::Make(spec));
    if (!choice.chosen) ZS_RETURN_IF_ERROR(problem->Choose(handle_, kWorkspaceBytes, choice.algorithm));
  }
  choice.chosen = true;
  Buffer bias;
  if (spec.bias) {
    ZS_ASSIGN_OR_RETURN(bias, device_.Allocate(4 * spec.n, Use::kActivations, "a product's bias"));
  }
  auto gemm = std::make_unique<CudaGemm>(spec, handle_, std::move(problem), choice, workspace_.array(DType::kUint8),
                                         std::move(bias));
  ZS_RETURN_IF_ERROR(RunOnce(*gemm, device_, stream_));
  return gemm;
}

}  // namespace zeroshard::device::cuda
