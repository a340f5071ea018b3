#include "zeroshard/device/cpu/blocked_weights_gemm.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/gemm_checks.h"
#include "zeroshard/device/cpu/launch_product.h"
#include "zeroshard/device/cpu/onednn.h"
#include "zeroshard/device/cpu/pack_weights.h"
#include "zeroshard/device/cpu/parallel.h"

namespace zeroshard::device {
namespace {

using std::byte;

// Measured on a CPU with AMX: from here on the new layout pays.
constexpr int64_t kLeastRows = 256, kLeastSide = 128;

// Descriptors of x [m, k], W [n, k] as it lies and in any layout, y [m, n] and the bias [n].
struct Operands {
  dnnl_memory_desc_t x, plain, weights, y, bias;
};

absl::StatusOr<Operands> DescribeOperands(const GemmSpec& s) {
  Operands o;
  const dnnl_dims_t x = {s.m, s.k}, w = {s.n, s.k}, y = {s.m, s.n}, row = {s.n};
  const dnnl_dims_t w_strides = {s.transpose_b ? s.k : 1, s.transpose_b ? 1 : s.n};
  const dnnl_data_type_t input = OneDnnType(s.input), output = OneDnnType(s.output), bias = OneDnnType(s.bias_dtype);
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&o.x, 2, x, input, dnnl_ab), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.plain, 2, w, input, w_strides), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&o.weights, 2, w, input, dnnl_format_tag_any), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&o.y, 2, y, output, dnnl_ab), Describe(s));
  ZS_ONEDNN(dnnl_memory_desc_init_by_tag(&o.bias, 1, row, bias, dnnl_a), Describe(s));
  return o;
}

class BlockedWeightsGemm final : public Gemm {
 public:
  BlockedWeightsGemm(const GemmSpec& spec, int threads, FirstError& error) : spec_(spec), threads_(threads), error_(error) {}

  absl::Status Plan(Device& device);
  void Run(Stream& stream, In a, In b, InOut c, In bias) override;
  const GemmSpec& spec() const override { return spec_; }

 private:
  absl::Status PlanReorder(const Operands& operands, const dnnl_memory_desc_t& blocked, Device& device);
  void Block(const byte* weights);
  void Execute(std::span<const byte> a, std::span<const byte> b, std::span<byte> c, std::span<const byte> bias);

  const GemmSpec spec_;
  const int threads_;
  FirstError& error_;
  Buffer blocked_;
  Bfloat16* packed_ = nullptr;
  std::optional<PackedLayout> layout_;  // nothing: reorder_ does it
  OneDnnPrimitive reorder_, product_;
  int from_ = 0, x_ = 0, y_ = 0, bias_ = 0;
};

absl::Status BlockedWeightsGemm::PlanReorder(const Operands& operands, const dnnl_memory_desc_t& blocked, Device& device) {
  packed_ = static_cast<Bfloat16*>(device.HostPointer(blocked_));
  layout_ = PackedLayoutOf(blocked);
  if (layout_.has_value()) return absl::OkStatus();
  const std::string what = absl::StrCat(Describe(spec_), ": weights");
  OneDnnAttributes attributes;
  ZS_RETURN_IF_ERROR(MakeOneDnnAttributes(/*accumulate=*/false, what, attributes));
  OneDnnDescription description;
  ZS_ONEDNN(dnnl_reorder_primitive_desc_create(description.out(), &operands.plain, OneDnnEngine(), &blocked, OneDnnEngine(),
                                               attributes.get()),
            what);
  ZS_RETURN_IF_ERROR(reorder_.Create(description.get(), device, what));
  ZS_ASSIGN_OR_RETURN(from_, reorder_.AddArgument(DNNL_ARG_FROM, operands.plain));
  ZS_ASSIGN_OR_RETURN(const int to, reorder_.AddArgument(DNNL_ARG_TO, blocked));
  reorder_.SetData(to, packed_);
  return absl::OkStatus();
}

absl::Status BlockedWeightsGemm::Plan(Device& device) {
  SetThreads(threads_);
  const std::string what = Describe(spec_);
  ZS_ASSIGN_OR_RETURN(const Operands o, DescribeOperands(spec_));
  OneDnnAttributes attributes;
  ZS_RETURN_IF_ERROR(MakeOneDnnAttributes(spec_.accumulate, what, attributes));
  dnnl_inner_product_desc_t product;
  ZS_ONEDNN(dnnl_inner_product_forward_desc_init(&product, dnnl_forward_inference, &o.x, &o.weights,
                                                 spec_.bias ? &o.bias : nullptr, &o.y),
            what);
  OneDnnDescription description;
  ZS_ONEDNN(dnnl_primitive_desc_create(description.out(), &product, attributes.get(), OneDnnEngine(), nullptr), what);
  const char* implementation = "";
  ZS_ONEDNN(dnnl_primitive_desc_query(description.get(), dnnl_query_impl_info_str, 0, &implementation), what);
  if (std::string_view(implementation).find("brg") == std::string_view::npos) {
    return absl::UnimplementedError(absl::StrCat(what, ": oneDNN would run ", implementation));
  }
  const dnnl_memory_desc_t& blocked = *dnnl_primitive_desc_query_md(description.get(), dnnl_query_weights_md, 0);
  const int64_t bytes = static_cast<int64_t>(dnnl_memory_desc_get_size(&blocked));
  ZS_ASSIGN_OR_RETURN(blocked_, device.AllocateHost(bytes, Use::kActivations, "a product's weights, blocked"));
  ZS_RETURN_IF_ERROR(PlanReorder(o, blocked, device));
  ZS_RETURN_IF_ERROR(product_.Create(description.get(), device, what));
  ZS_ASSIGN_OR_RETURN(x_, product_.AddArgument(DNNL_ARG_SRC, o.x));
  ZS_ASSIGN_OR_RETURN(const int weights, product_.AddArgument(DNNL_ARG_WEIGHTS, blocked));
  product_.SetData(weights, packed_);
  ZS_ASSIGN_OR_RETURN(y_, product_.AddArgument(DNNL_ARG_DST, o.y));
  if (spec_.bias) {
    ZS_ASSIGN_OR_RETURN(bias_, product_.AddArgument(DNNL_ARG_BIAS, o.bias));
  }
  return absl::OkStatus();
}

void BlockedWeightsGemm::Run(Stream& stream, In a, In b, InOut c, In bias) {
  CheckOperands(spec_, a.array, b.array, c.array, bias.array);
  const auto run = [this](std::span<const byte> from_a, std::span<const byte> from_b, std::span<byte> to,
                          std::span<const byte> from_bias) { Execute(from_a, from_b, to, from_bias); };
  LaunchProduct(stream, "product", spec_, run, a, b, c, bias);
}

void BlockedWeightsGemm::Block(const byte* weights) {
  if (layout_.has_value()) {
    const auto* from = reinterpret_cast<const Bfloat16*>(weights);
    return ParallelFor(threads_, layout_->n / layout_->columns, 1, [&](int64_t first, int64_t last) {
      PackWeights(*layout_, from, spec_.transpose_b, packed_, first, last);
    });
  }
  reorder_.SetData(from_, weights);
  error_.Keep(reorder_.Execute());
}

void BlockedWeightsGemm::Execute(std::span<const byte> a, std::span<const byte> b, std::span<byte> c,
                                 std::span<const byte> bias) {
  SetThreads(threads_);
  Block(b.data());
  product_.SetData(x_, a.data());
  product_.SetData(y_, c.data());
  if (spec_.bias) product_.SetData(bias_, bias.data());
  error_.Keep(product_.Execute());
}

}  // namespace

bool WantsBlockedWeights(const GemmSpec& s) {
  return s.input == DType::kBfloat16 && s.dense() && !s.transpose_a && s.m >= kLeastRows && s.n >= kLeastSide &&
         s.k >= kLeastSide;
}

absl::StatusOr<std::unique_ptr<Gemm>> PlanBlockedWeights(const GemmSpec& spec, int threads, Device& device,
                                                         FirstError& error) {
  auto gemm = std::make_unique<BlockedWeightsGemm>(spec, threads, error);
  ZS_RETURN_IF_ERROR(gemm->Plan(device));
  return gemm;
}

}  // namespace zeroshard::device
