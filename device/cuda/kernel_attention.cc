#include "zeroshard/device/cuda/kernel_attention.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cuda/attention_kernels.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/kernel_checks.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device::cuda {
namespace {

class KernelAttention final : public Attention {
 public:
  explicit KernelAttention(const AttentionSpec& spec) : spec_(spec) {}

  const AttentionSpec& spec() const override { return spec_; }
  int64_t workspace_bytes() const override { return AttentionScratchBytes(spec_); }

  void Forward(Stream& stream, device::In qkv, device::Out out, device::Out log_sum_exp, device::InOut workspace) override {
    kernel_checks::Attention(spec_, qkv.array, out.array, log_sum_exp.array);
    kernel_checks::AttentionWorkspace(workspace_bytes(), workspace.array);
    CudaStream& on = CudaStream::Of(stream);
    on.Keep(AttentionForward(on.native(), spec_, qkv.array, out.array, log_sum_exp.array), "attention");
  }

  void Backward(Stream& stream, device::In qkv, device::In out, device::In log_sum_exp, device::In d_out, device::Out d_qkv,
                device::InOut workspace) override {
    kernel_checks::Attention(spec_, qkv.array, out.array, log_sum_exp.array);
    kernel_checks::Attention(spec_, d_qkv.array, d_out.array, log_sum_exp.array);
    kernel_checks::AttentionWorkspace(workspace_bytes(), workspace.array);
    CudaStream& on = CudaStream::Of(stream);
    const AttentionGradient arrays{.qkv = qkv.array,
                                   .out = out.array,
                                   .log_sum_exp = log_sum_exp.array,
                                   .d_out = d_out.array,
                                   .d_qkv = d_qkv.array,
                                   .scratch = workspace.array};
    on.Keep(AttentionBackward(on.native(), spec_, arrays), "attention backward");
  }

 private:
  const AttentionSpec spec_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> PlanKernelAttention(const AttentionSpec& spec) {
  ZS_RETURN_IF_ERROR(kernel_checks::CheckAttention(spec));
  if (spec.head_width > kMostHeadWidth) {
    return absl::UnimplementedError(
        absl::StrCat("attention by our CUDA kernel: heads of up to ", kMostHeadWidth, ", not ", spec.head_width));
  }
  return std::make_unique<KernelAttention>(spec);
}

}  // namespace zeroshard::device::cuda
