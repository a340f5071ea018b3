#include "zeroshard/device/cuda/cuda_gemm.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cuda/cuda_needs.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device::cuda {
namespace {

// Bytes.
constexpr uint64_t kWidestLoad = 16;

void* Pointer(const Array& array) { return reinterpret_cast<void*>(array.address()); }

// What plans of one device share, and how one of its products runs.
struct Planned {
  GemmSpec spec;
  cublasLtHandle_t handle;
  std::unique_ptr<MatmulProblem> problem;  // null: there is nothing to do
  const GemmChoice& choice;
  Array workspace;
  Buffer bias;  // [n], where there is one

  // cuBLASLt takes a bias of C's dtype alone, and loads 16 bytes of it at once.
  Array BiasFor(Stream& stream, const Array& given) const {
    if (given.dtype() == spec.output && given.address() % kWidestLoad == 0) return given;
    const Array own = bias.array(spec.output).Slice(0, spec.n);
    Elementwise& kernels = stream.device().elementwise();
    if (given.dtype() == spec.output) {
      kernels.Copy(stream, given, own);
    } else {
      kernels.Convert(stream, given, own);
    }
    return own;
  }

  void Run(Stream& stream, const Array& a, const Array& b, const Array& c, const Array& given_bias,
           const Array& gelu_input) const {
    CudaStream& on = CudaStream::Of(stream);
    const cudaStream_t native = on.native();
    const MatmulProblem::Operands operands{.a = Pointer(a),
                                           .b = Pointer(b),
                                           .c = Pointer(c),
                                           .bias = spec.bias ? Pointer(BiasFor(stream, given_bias)) : nullptr,
                                           .gelu_input = Pointer(gelu_input)};
    const VendorScope scope;
    const cublasStatus_t status =
        problem->Run(handle, choice.algorithm, operands, Pointer(workspace), workspace.bytes(), native);
    if (status != CUBLAS_STATUS_SUCCESS) on.errors().Keep(BlasStatus(status, Describe(spec)));
  }
};

class CudaGemm final : public Gemm {
 public:
  explicit CudaGemm(Planned planned) : planned_(std::move(planned)) {}

  const GemmSpec& spec() const override { return planned_.spec; }

  void Run(Stream& stream, In a, In b, InOut c, In bias) override {
    CheckOperands(planned_.spec, a.array, b.array, c.array, bias.array);
    if (!c.array.empty()) planned_.Run(stream, a.array, b.array, c.array, bias.array, Array());
  }

 private:
  const Planned planned_;
};

class CudaGeluGemm final : public GeluGemm {
 public:
  explicit CudaGeluGemm(Planned planned) : planned_(std::move(planned)) {}

  const GemmSpec& spec() const { return planned_.spec; }

  void Run(Stream& stream, In a, In b, In bias, Out x, Out y) override {
    CheckOperands(spec(), a.array, b.array, x.array, bias.array);
    CheckOperands(spec(), a.array, b.array, y.array, bias.array);
    CHECK(x.array.address() % kWidestLoad == 0 && y.array.address() % kWidestLoad == 0) << Describe(spec()) << ": alignment";
    planned_.Run(stream, a.array, b.array, y.array, bias.array, x.array);
  }
  // Another algorithm would have other bits.
  void RunInput(Stream& stream, In a, In b, In bias, Out x, Out scratch) override { Run(stream, a, b, bias, x, scratch); }

 private:
  const Planned planned_;
};

// What cuBLASLt's GELU is taken for. In fp32 it is not: nobody says how it takes the hyperbolic tangent, and two bytes forgive more. The
// input's rows are to be a multiple of 8 elements.
bool TakesGelu(const GemmSpec& s) {
  return s.bias && !s.accumulate && s.dense() && s.output != DType::kFloat32 && s.m > 0 && s.n > 0 && s.n % 8 == 0;
}

// Runs a product on memory of no meaning, one stretch for all its matrices. `run` is handed A, B, C, the bias, and C once more.
template <class Run>
absl::Status RunOnce(const GemmSpec& s, Device& device, CudaStream& stream, Run run) {
  if (s.m * s.n == 0) return absl::OkStatus();
  const int64_t a = s.a_rows() * s.a_row_stride(), c = s.m * s.c_row_stride();
  const int64_t bytes = std::max({SizeOf(s.input) * a, SizeOf(s.input) * s.k * s.n, 2 * SizeOf(s.output) * c, 4 * s.n});
  ZS_ASSIGN_OR_RETURN(const Buffer memory, device.Allocate(bytes, Use::kActivations, "a product's first run"));
  const auto first = [&](DType dtype, int64_t count) { return memory.array(dtype).Slice(0, count); };
  run(first(s.input, a), first(s.input, s.k * s.n), first(s.output, c), s.bias ? first(s.bias_dtype, s.n) : Array(),
      memory.array(s.output).Slice(c, c));
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
  ZS_ASSIGN_OR_RETURN(products->workspace_,
                      device.Allocate(kProductWorkspaceBytes, Use::kActivations, "cuBLASLt's workspace"));
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
    if (!choice.chosen) ZS_RETURN_IF_ERROR(problem->Choose(handle_, kProductWorkspaceBytes, choice.algorithm));
  }
  choice.chosen = true;
  planned_[Describe(spec)] = {.spec = spec, .epilogue = Epilogue::kPlain};
  ZS_ASSIGN_OR_RETURN(Buffer bias, OwnBias(spec));
  auto gemm = std::make_unique<CudaGemm>(
      Planned{spec, handle_, std::move(problem), choice, workspace_.array(DType::kUint8), std::move(bias)});
  const auto run = [&](const Array& a, const Array& b, const Array& c, const Array& given, const Array&) {
    gemm->Run(stream_, a, b, c, given);
  };
  ZS_RETURN_IF_ERROR(RunOnce(spec, device_, stream_, run));
  return gemm;
}

absl::StatusOr<std::unique_ptr<GeluGemm>> CudaProducts::PlanGelu(const GemmSpec& spec) {
  ZS_RETURN_IF_ERROR(CheckSpec(spec));
  if (!TakesGelu(spec)) return absl::UnimplementedError(absl::StrCat(Describe(spec), " and GELU: in two operations"));
  static_cast<void>(stream_.native());
  const VendorScope scope;
  ZS_ASSIGN_OR_RETURN(auto problem, MatmulProblem::Make(spec, Epilogue::kGelu));
  const std::string name = absl::StrCat(Describe(spec), ", GELU");
  cublasLtMatmulAlgo_t algorithm;
  if (!choices_.Has(name)) {
    ZS_RETURN_IF_ERROR(problem->Choose(handle_, kProductWorkspaceBytes, algorithm));
    choices_.Of(name) = {.algorithm = algorithm, .chosen = true};
  }
  planned_[name] = {.spec = spec, .epilogue = Epilogue::kGelu};
  ZS_ASSIGN_OR_RETURN(Buffer bias, OwnBias(spec));
  auto gemm = std::make_unique<CudaGeluGemm>(
      Planned{spec, handle_, std::move(problem), choices_.Of(name), workspace_.array(DType::kUint8), std::move(bias)});
  const auto run = [&](const Array& a, const Array& b, const Array& c, const Array& given, const Array& input) {
    gemm->Run(stream_, a, b, given, input, c);
  };
  ZS_RETURN_IF_ERROR(RunOnce(spec, device_, stream_, run));
  return gemm;
}

// Planning a product again runs it by the choice that there is by then: its kernel is loaded, too, before anything is in flight.
absl::Status CudaProducts::TakeChoices(std::string_view text) {
  ZS_ASSIGN_OR_RETURN(const GemmChoices::Algorithms algorithms, choices_.Read(text));
  const GemmChoices::Algorithms changes = choices_.Changes(algorithms);
  std::vector<Product> again;
  for (const auto& [name, algorithm] : changes) {
    const auto planned = planned_.find(name);
    if (planned == planned_.end() || planned->second.spec.m * planned->second.spec.n == 0) continue;
    const Product& product = again.emplace_back(planned->second);
    ZS_ASSIGN_OR_RETURN(const auto problem, MatmulProblem::Make(product.spec, product.epilogue));
    ZS_RETURN_IF_ERROR(problem->Check(handle_, kProductWorkspaceBytes, algorithm));
  }
  choices_.Take(changes);
  for (const auto& [spec, epilogue] : again) {
    ZS_RETURN_IF_ERROR(epilogue == Epilogue::kGelu ? PlanGelu(spec).status() : Plan(spec).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Buffer> CudaProducts::OwnBias(const GemmSpec& spec) {
  if (!spec.bias) return Buffer();
  return device_.Allocate(4 * spec.n, Use::kActivations, "a product's bias");
}

}  // namespace zeroshard::device::cuda
