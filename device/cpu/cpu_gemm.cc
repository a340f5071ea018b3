#include "zeroshard/device/cpu/cpu_gemm.h"

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneapi/dnnl/dnnl.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device {
namespace {

using std::byte;

std::string Describe(const GemmSpec& s) {
  return absl::StrCat("product [", s.m, " x ", s.k, "] x [", s.k, " x ", s.n, "]", s.transpose_a ? " of A's transpose" : "",
                      s.transpose_b ? " with B's transpose" : "", s.bias ? " + bias" : "", s.accumulate ? " + C" : "", ", ",
                      std::string(Name(s.input)), " to ", std::string(Name(s.output)));
}

absl::StatusOr<dnnl_data_type_t> OneDnnType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return dnnl_f32;
    case DType::kBfloat16:
      return dnnl_bf16;
    case DType::kFloat16:
      return dnnl_f16;
    default:
      return absl::UnimplementedError(absl::StrCat("no products of ", std::string(Name(dtype))));
  }
}

// The process's one oneDNN engine; it is never destroyed, so that plans may outlive static destruction.
dnnl_engine_t Engine() {
  static dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    const dnnl_status_t status = dnnl_engine_create(&made, dnnl_cpu, 0);
    if (status != dnnl_success) LOG(ERROR) << "oneDNN gives no CPU engine: status " << status;
    return made;
  }();
  return engine;
}

absl::Status ToStatus(dnnl_status_t status, const char* call, const GemmSpec& spec) {
  if (status == dnnl_success) return absl::OkStatus();
  const std::string text = absl::StrCat(Describe(spec), ": ", call, ": oneDNN status ", static_cast<int>(status));
  if (status == dnnl_unimplemented) return absl::UnimplementedError(absl::StrCat(text, " (unimplemented on this machine)"));
  if (status == dnnl_out_of_memory) return absl::ResourceExhaustedError(absl::StrCat(text, " (out of memory)"));
  return absl::InternalError(text);
}

#define ZS_ONEDNN(call, spec) ZS_RETURN_IF_ERROR(ToStatus((call), #call, spec))

// A oneDNN handle that its plan owns.
template <class Handle, dnnl_status_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using OwnedMemory = Owned<dnnl_memory_t, dnnl_memory_destroy>;
using OwnedAttributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using OwnedPostOps = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using OwnedDescription = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using OwnedPrimitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using OwnedStream = Owned<dnnl_stream_t, dnnl_stream_destroy>;

// The descriptors of A [m, k], B [k, n], C [m, n] and the bias [1, n].
struct Operands {
  dnnl_memory_desc_t a, b, c, bias;
};

absl::StatusOr<Operands> DescribeOperands(const GemmSpec& s) {
  Operands o;
  ZS_ASSIGN_OR_RETURN(const dnnl_data_type_t input, OneDnnType(s.input));
  ZS_ASSIGN_OR_RETURN(const dnnl_data_type_t output, OneDnnType(s.output));
  ZS_ASSIGN_OR_RETURN(const dnnl_data_type_t bias, OneDnnType(s.bias_dtype));
  const dnnl_dims_t a = {s.m, s.k}, b = {s.k, s.n}, c = {s.m, s.n}, row = {1, s.n};
  const dnnl_dims_t a_strides = {s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1};
  const dnnl_dims_t b_strides = {s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1};
  const dnnl_dims_t c_strides = {s.n, 1};
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.a, 2, a, input, a_strides), s);
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.b, 2, b, input, b_strides), s);
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.c, 2, c, output, c_strides), s);
  ZS_ONEDNN(dnnl_memory_desc_init_by_strides(&o.bias, 2, row, bias, c_strides), s);
  return o;
}

class CpuGemm final : public Gemm {
 public:
  CpuGemm(const GemmSpec& spec, int threads, FirstError& error) : spec_(spec), threads_(threads), error_(error) {}

  absl::Status Plan(Device& device);
  void Run(Stream& stream, In a, In b, InOut c, In bias) override;
  const GemmSpec& spec() const override { return spec_; }

 private:
  bool empty() const { return spec_.m == 0 || spec_.n == 0; }
  absl::Status MakePrimitive(const Operands& operands, const dnnl_memory_desc_t*& scratch);
  void Execute(std::span<const byte> a, std::span<const byte> b, std::span<byte> c, std::span<const byte> bias);

  const GemmSpec spec_;
  const int threads_;
  FirstError& error_;
  Buffer scratch_;
  OwnedStream stream_;
  OwnedDescription description_;
  OwnedPrimitive primitive_;
  OwnedMemory a_, b_, c_, bias_, scratch_memory_;
  std::array<dnnl_exec_arg_t, 5> arguments_;
  int argument_count_ = 0;
};

absl::Status CpuGemm::MakePrimitive(const Operands& operands, const dnnl_memory_desc_t*& scratch) {
  OwnedAttributes attributes;
  OwnedPostOps post_ops;
  ZS_ONEDNN(dnnl_primitive_attr_create(attributes.out()), spec_);
  ZS_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user), spec_);
  if (spec_.accumulate) {
    ZS_ONEDNN(dnnl_post_ops_create(post_ops.out()), spec_);
    ZS_ONEDNN(dnnl_post_ops_append_sum(post_ops.get(), 1.0f), spec_);
    ZS_ONEDNN(dnnl_primitive_attr_set_post_ops(attributes.get(), post_ops.get()), spec_);
  }
  dnnl_matmul_desc_t matmul;
  ZS_ONEDNN(dnnl_matmul_desc_init(&matmul, &operands.a, &operands.b, spec_.bias ? &operands.bias : nullptr, &operands.c),
            spec_);
  ZS_ONEDNN(dnnl_primitive_desc_create(description_.out(), &matmul, attributes.get(), Engine(), nullptr), spec_);
  ZS_ONEDNN(dnnl_primitive_create(primitive_.out(), description_.get()), spec_);
  scratch = dnnl_primitive_desc_query_md(description_.get(), dnnl_query_scratchpad_md, 0);
  return absl::OkStatus();
}

absl::Status CpuGemm::Plan(Device& device) {
  if (empty()) return absl::OkStatus();
  if (Engine() == nullptr) return absl::UnimplementedError("oneDNN gives no CPU engine");
  SetThreads(threads_);
  ZS_ASSIGN_OR_RETURN(const Operands operands, DescribeOperands(spec_));
  const dnnl_memory_desc_t* scratch = nullptr;
  ZS_RETURN_IF_ERROR(MakePrimitive(operands, scratch));
  ZS_ONEDNN(dnnl_stream_create(stream_.out(), Engine(), dnnl_stream_default_flags), spec_);
  const auto add = [this](OwnedMemory& memory, const dnnl_memory_desc_t& what, int argument, void* data) -> absl::Status {
    ZS_ONEDNN(dnnl_memory_create(memory.out(), &what, Engine(), data), spec_);
    arguments_[argument_count_++] = {argument, memory.get()};
    return absl::OkStatus();
  };
  ZS_RETURN_IF_ERROR(add(a_, operands.a, DNNL_ARG_SRC, DNNL_MEMORY_NONE));
  ZS_RETURN_IF_ERROR(add(b_, operands.b, DNNL_ARG_WEIGHTS, DNNL_MEMORY_NONE));
  ZS_RETURN_IF_ERROR(add(c_, operands.c, DNNL_ARG_DST, DNNL_MEMORY_NONE));
  if (spec_.bias) ZS_RETURN_IF_ERROR(add(bias_, operands.bias, DNNL_ARG_BIAS, DNNL_MEMORY_NONE));
  const int64_t bytes = scratch == nullptr ? 0 : static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
  if (bytes == 0) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(scratch_, device.AllocateHost(bytes, Use::kActivations, "a matrix product's scratch"));
  return add(scratch_memory_, *scratch, DNNL_ARG_SCRATCHPAD, device.HostPointer(scratch_));
}

void CpuGemm::Run(Stream& stream, In a, In b, InOut c, In bias) {
  const GemmSpec& s = spec_;
  CHECK_EQ(a.array.elements(), s.m * s.k) << Describe(s) << ": A";
  CHECK_EQ(b.array.elements(), s.k * s.n) << Describe(s) << ": B";
  CHECK_EQ(c.array.elements(), s.m * s.n) << Describe(s) << ": C";
  CHECK_EQ(bias.array.elements(), s.bias ? s.n : 0) << Describe(s) << ": bias";
  CHECK(!s.bias || bias.array.dtype() == s.bias_dtype) << Describe(s) << ": bias of " << Name(bias.array.dtype());
  CHECK(a.array.dtype() == s.input && b.array.dtype() == s.input && c.array.dtype() == s.output)
      << Describe(s) << ": dtypes";
  if (empty()) return;
  const auto run = [this](std::span<const byte> from_a, std::span<const byte> from_b, std::span<byte> to,
                          std::span<const byte> from_bias) { Execute(from_a, from_b, to, from_bias); };
  if (s.accumulate) {
    HostLaunch(stream, "product", run, Read<byte>(a), Read<byte>(b), Update<byte>(c), Read<byte>(bias));
  } else {
    HostLaunch(stream, "product", run, Read<byte>(a), Read<byte>(b), Write<byte>(c.array), Read<byte>(bias));
  }
}

void CpuGemm::Execute(std::span<const byte> a, std::span<const byte> b, std::span<byte> c, std::span<const byte> bias) {
  SetThreads(threads_);
  VendorScope scope;
  dnnl_memory_set_data_handle(a_.get(), const_cast<byte*>(a.data()));
  dnnl_memory_set_data_handle(b_.get(), const_cast<byte*>(b.data()));
  dnnl_memory_set_data_handle(c_.get(), c.data());
  if (spec_.bias) dnnl_memory_set_data_handle(bias_.get(), const_cast<byte*>(bias.data()));
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream_.get(), argument_count_, arguments_.data());
  if (status != dnnl_success) error_.Keep(ToStatus(status, "dnnl_primitive_execute", spec_));
}

#undef ZS_ONEDNN

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> PlanCpuGemm(const GemmSpec& spec, int threads, Device& device, FirstError& error) {
  if (spec.m < 0 || spec.n < 0 || spec.k <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(spec), ": m and n must be at least 0, k at least 1"));
  }
  auto gemm = std::make_unique<CpuGemm>(spec, threads, error);
  ZS_RETURN_IF_ERROR(gemm->Plan(device));
  return gemm;
}

}  // namespace zeroshard::device
