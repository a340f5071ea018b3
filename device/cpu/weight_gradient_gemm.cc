#include "zeroshard/device/cpu/weight_gradient_gemm.h"

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cpu/onednn.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {
namespace {

using std::byte;

// Measured on a CPU with AMX: from so many rows on it is the faster one.
constexpr int64_t kLeastRows = 1024, kLeastSide = 128;

class WeightGradientGemm final : public Gemm {
 public:
  WeightGradientGemm(const GemmSpec& spec, int threads, FirstError& error) : spec_(spec), threads_(threads), error_(error) {}

  absl::Status Plan(Device& device);
  void Run(Stream& stream, In a, In b, InOut c, In bias) override;
  const GemmSpec& spec() const override { return spec_; }

 private:
  const GemmSpec spec_;
  const int threads_;
  FirstError& error_;
  OneDnnPrimitive product_;
  int d_y_ = 0, x_ = 0, d_w_ = 0;
};

// A is d_y [k, m], B is x [k, n], C is d_w [m, n].
absl::Status WeightGradientGemm::Plan(Device& device) {
  SetThreads(threads_);
  const std::string what = Describe(spec_);
  const dnnl_dims_t d_y_dims = {spec_.k, spec_.m}, x_dims = {spec_.k, spec_.n}, w_dims = {spec_.m, spec_.n};
  const dnnl_data_type_t input = OneDnnType(spec_.input);
  dnnl_memory_desc_t d_y, x, w, d_w;
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&d_y, 2, d_y_dims, input, dnnl_ab), what);
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&x, 2, x_dims, input, dnnl_ab), what);
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&w, 2, w_dims, input, dnnl_ab), what);
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&d_w, 2, w_dims, OneDnnType(spec_.output), dnnl_ab), what);
  dnnl_inner_product_desc_t forward, backward;
  OneDnnDescription forward_description, description;
  OneDnnAttributes attributes;
  ZS_RETURN_IF_ERROR(MakeOneDnnAttributes(/*accumulate=*/false, what, attributes));
  // oneDNN wants the forward product as a hint; it is never made.
  ZS_ONEDNN(dnnl_inner_product_forward_desc_init(&forward, dnnl_forward_training, &x, &w, nullptr, &d_y), what);
  ZS_ONEDNN(dnnl_primitive_desc_create(forward_description.out(), &forward, nullptr, OneDnnEngine(), nullptr), what);
  ZS_ONEDNN(dnnl_inner_product_backward_weights_desc_init(&backward, &x, &d_w, nullptr, &d_y), what);
  ZS_ONEDNN(
      dnnl_primitive_desc_create(description.out(), &backward, attributes.get(), OneDnnEngine(), forward_description.get()),
      what);
  ZS_RETURN_IF_ERROR(product_.Create(description.get(), device, what));
  ZS_ASSIGN_OR_RETURN(x_, product_.AddArgument(DNNL_ARG_SRC, x));
  ZS_ASSIGN_OR_RETURN(d_y_, product_.AddArgument(DNNL_ARG_DIFF_DST, d_y));
  ZS_ASSIGN_OR_RETURN(d_w_, product_.AddArgument(DNNL_ARG_DIFF_WEIGHTS, d_w));
  return absl::OkStatus();
}

void WeightGradientGemm::Run(Stream& stream, In a, In b, InOut c, In bias) {
  CheckOperands(spec_, a.array, b.array, c.array, bias.array);
  const auto run = [this](std::span<const byte> d_y, std::span<const byte> x, std::span<byte> d_w) {
    SetThreads(threads_);
    product_.SetData(d_y_, d_y.data());
    product_.SetData(x_, x.data());
    product_.SetData(d_w_, d_w.data());
    error_.Keep(product_.Execute());
  };
  HostLaunch(stream, "product", run, Read<byte>(a), Read<byte>(b), Write<byte>(c.array));
}

}  // namespace

bool WantsWeightGradient(const GemmSpec& s) {
  return s.input == DType::kBfloat16 && s.dense() && s.transpose_a && !s.transpose_b && !s.bias && !s.accumulate &&
         s.k >= kLeastRows && s.m >= kLeastSide && s.n >= kLeastSide;
}

absl::StatusOr<std::unique_ptr<Gemm>> PlanWeightGradient(const GemmSpec& spec, int threads, Device& device,
                                                         FirstError& error) {
  auto gemm = std::make_unique<WeightGradientGemm>(spec, threads, error);
  ZS_RETURN_IF_ERROR(gemm->Plan(device));
  return gemm;
}

}  // namespace zeroshard::device
