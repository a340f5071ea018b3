#include "zeroshard/device/cpu/matmul_gemm.h"

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cpu/launch_product.h"
#include "zeroshard/device/cpu/onednn.h"
#include "zeroshard/device/cpu/parallel.h"

namespace zeroshard::device {
namespace {

using std::byte;

// The descriptors of A [m, k], B [k, n], C [m, n] and the bias [1, n].
struct Operands {
  dnnl_memory_desc_t a, b, c, bias;
};

absl::StatusOr<Operands> DescribeOperands(const GemmSpec& s) {
  Operands o;
  const dnnl_dims_t a = {s.m, s.k}, b = {s.k, s.n}, c = {s.m, s.n}, row = {1, s.n};
  const dnnl_dims_t a_strides = {s.transpose_a ? 1 : s.a_row_stride(), s.transpose_a ? s.a_row_stride() : 1};
  const dnnl_dims_t b_strides = {s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1};
  const dnnl_dims_t c_strides = {s.c_row_stride(), 1}, row_strides = {s.n, 1};
  const dnnl_data_type_t input = OneDnnType(s.input), output = OneDnnType(s.output), bias = OneDnnType(s.bias_dtype);
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.a, 2, a, input, a_strides), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.b, 2, b, input, b_strides), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.c, 2, c, output, c_strides), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.bias, 2, row, bias, row_strides), Describe(s));
  return o;
}

class MatmulGemm final : public Gemm {
 public:
  MatmulGemm(const GemmSpec& spec, int threads, FirstError& error) : spec_(spec), threads_(threads), error_(error) {}

  absl::Status Plan(Device& device);
  void Run(Stream& stream, In a, In b, InOut c, In bias) override;
  const GemmSpec& spec() const override { return spec_; }

 private:
  bool empty() const { return spec_.m == 0 || spec_.n == 0; }
  void Execute(std::span<const byte> a, std::span<const byte> b, std::span<byte> c, std::span<const byte> bias);

  const GemmSpec spec_;
  const int threads_;
  FirstError& error_;
  OneDnnPrimitive product_;
  int a_ = 0, b_ = 0, c_ = 0, bias_ = 0;
};

absl::Status MatmulGemm::Plan(Device& device) {
  if (empty()) return absl::OkStatus();
  if (OneDnnEngine() == nullptr) return absl::UnimplementedError("oneDNN gives no CPU engine");
  SetThreads(threads_);
  const std::string what = Describe(spec_);
  ZS_ASSIGN_OR_RETURN(const Operands o, DescribeOperands(spec_));
  OneDnnAttributes attributes;
  ZS_RETURN_IF_ERROR(MakeOneDnnAttributes(spec_.accumulate, what, attributes));
  dnnl_matmul_desc_t matmul;
  ZS_ONEDNN(dnnl_matmul_desc_init(&matmul, &o.a, &o.b, spec_.bias ? &o.bias : nullptr, &o.c), what);
  OneDnnDescription description;
  ZS_ONEDNN(dnnl_primitive_desc_create(description.out(), &matmul, attributes.get(), OneDnnEngine(), nullptr), what);
  ZS_RETURN_IF_ERROR(product_.Create(description.get(), device, what));
  ZS_ASSIGN_OR_RETURN(a_, product_.AddArgument(DNNL_ARG_SRC, o.a));
  ZS_ASSIGN_OR_RETURN(b_, product_.AddArgument(DNNL_ARG_WEIGHTS, o.b));
  ZS_ASSIGN_OR_RETURN(c_, product_.AddArgument(DNNL_ARG_DST, o.c));
  if (spec_.bias) {
    ZS_ASSIGN_OR_RETURN(bias_, product_.AddArgument(DNNL_ARG_BIAS, o.bias));
  }
  return absl::OkStatus();
}

void MatmulGemm::Run(Stream& stream, In a, In b, InOut c, In bias) {
  CheckOperands(spec_, a.array, b.array, c.array, bias.array);
  if (empty()) return;
  const auto run = [this](std::span<const byte> from_a, std::span<const byte> from_b, std::span<byte> to,
                          std::span<const byte> from_bias) { Execute(from_a, from_b, to, from_bias); };
  LaunchProduct(stream, "product", spec_, run, a, b, c, bias);
}

void MatmulGemm::Execute(std::span<const byte> a, std::span<const byte> b, std::span<byte> c, std::span<const byte> bias) {
  SetThreads(threads_);
  product_.SetData(a_, a.data());
  product_.SetData(b_, b.data());
  product_.SetData(c_, c.data());
  if (spec_.bias) product_.SetData(bias_, bias.data());
  error_.Keep(product_.Execute());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> PlanMatmul(const GemmSpec& spec, int threads, Device& device, FirstError& error) {
  auto gemm = std::make_unique<MatmulGemm>(spec, threads, error);
  ZS_RETURN_IF_ERROR(gemm->Plan(device));
  return gemm;
}

}  // namespace zeroshard::device
