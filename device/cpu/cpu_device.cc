#include "zeroshard/device/cpu/cpu_device.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "zeroshard/device/cpu/cpu_attention.h"
#include "zeroshard/device/cpu/cpu_elementwise.h"
#include "zeroshard/device/cpu/cpu_event.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/cpu_step_kernels.h"
#include "zeroshard/device/cpu/cpu_stream.h"
#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
#include "zeroshard/device/cpu/host_buffer.h"
#include "zeroshard/device/cpu/host_copy.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gelu_after_gemm.h"

namespace zeroshard::device {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : threads_(std::max(1, options.threads)),
        memory_(options.memory),
        elementwise_(threads_),
        transformer_(threads_),
        step_(threads_) {}

  std::string_view name() const override { return "cpu"; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) override {
    return AllocateHostBuffer(bytes, use, what, ledger_, memory_);
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) override {
    return Allocate(bytes, use, what);
  }
  void* HostPointer(const Buffer& host_buffer) override { return HostAddress(host_buffer.array(DType::kUint8)); }

  Device& host() override {
    std::call_once(host_made_, [this] { host_ = std::make_unique<CpuDevice>(CpuDeviceOptions{.threads = threads_}); });
    return *host_;
  }

  std::unique_ptr<Stream> MakeStream(StreamKind kind) override { return std::make_unique<CpuStream>(*this, kind); }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<CpuEvent>(); }

  void CopyToHost(Stream& stream, In from, void* to) override { QueueCopyToHost(stream, from, to); }
  void CopyFromHost(Stream& stream, const void* from, Out to) override { QueueCopyFromHost(stream, from, to); }

  void* HostAddress(const Array& array) override { return reinterpret_cast<void*>(array.address()); }
  absl::StatusOr<Array> Adopt(void* pointer, int64_t bytes) override {
    return Array(reinterpret_cast<uint64_t>(pointer), bytes, DType::kUint8);
  }

  absl::StatusOr<std::unique_ptr<Gemm>> PlanGemm(const GemmSpec& spec) override {
    return PlanCpuGemm(spec, threads_, *this, error_);
  }
  absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluGemm(const GemmSpec& spec) override {
    return PlanGeluAfterGemm(*this, spec);
  }
  absl::StatusOr<std::unique_ptr<Attention>> PlanAttention(const AttentionSpec& spec) override {
    return PlanCpuAttention(spec, threads_, *this, error_);
  }

  Elementwise& elementwise() override { return elementwise_; }
  TransformerKernels& transformer() override { return transformer_; }
  StepKernels& step() override { return step_; }

  MemoryLedger& ledger() override { return ledger_; }
  absl::Status status() const override { return error_.status(); }

 private:
  const int threads_;
  HostMemorySource* const memory_;
  MemoryLedger ledger_;
  FirstError error_;
  CpuElementwise elementwise_;
  CpuTransformerKernels transformer_;
  CpuStepKernels step_;
  std::once_flag host_made_;
  std::unique_ptr<Device> host_;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice(const CpuDeviceOptions& options) { return std::make_unique<CpuDevice>(options); }

}  // namespace zeroshard::device
