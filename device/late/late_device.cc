#include "zeroshard/device/late/late_device.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/cpu_attention.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/cpu_elementwise.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/cpu_step_kernels.h"
#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
#include "zeroshard/device/cpu/host_buffer.h"
#include "zeroshard/device/cpu/host_copy.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/gelu_after_gemm.h"
#include "zeroshard/device/late/late_engine.h"
#include "zeroshard/device/late/late_stream.h"

namespace zeroshard::device {
namespace {

class DeviceOwner final : public Buffer::Owner {
 public:
  DeviceOwner(std::shared_ptr<LateEngine> engine, uint64_t address, MemoryLedger& ledger, Use use, int64_t bytes)
      : engine_(std::move(engine)), address_(address), ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
  }
  ~DeviceOwner() override {
    engine_->Free(address_, bytes_);
    ledger_.Credit(use_, bytes_);
  }

 private:
  const std::shared_ptr<LateEngine> engine_;
  const uint64_t address_;
  MemoryLedger& ledger_;
  const Use use_;
  const int64_t bytes_;
};

class HostLateDevice final : public LateDevice {
 public:
  explicit HostLateDevice(const LateOptions& options)
      : threads_(std::max(1, options.threads)),
        engine_(std::make_shared<LateEngine>(options)),
        elementwise_(threads_),
        transformer_(threads_),
        step_(threads_),
        host_(MakeCpuDevice({.threads = threads_})) {}

  std::string_view name() const override { return "late"; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) override {
    const absl::StatusOr<uint64_t> address = engine_->Allocate(bytes, what);
    if (!address.ok()) return AllocationError(address.status(), what, ledger_);
    return Buffer(*address, bytes, std::make_unique<DeviceOwner>(engine_, *address, ledger_, use, bytes));
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) override {
    return AllocateHostBuffer(bytes, use, what, ledger_);
  }
  void* HostPointer(const Buffer& host_buffer) override {
    return reinterpret_cast<void*>(host_buffer.array(DType::kUint8).address());
  }

  // Its memory is no device memory: no clock looks at it.
  Device& host() override { return *host_; }

  std::unique_ptr<Stream> MakeStream(StreamKind kind) override { return std::make_unique<LateStream>(*this, engine_, kind); }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<LateEvent>(engine_); }

  void CopyToHost(Stream& stream, In from, void* to) override { QueueCopyToHost(stream, from, to); }
  void CopyFromHost(Stream& stream, const void* from, Out to) override { QueueCopyFromHost(stream, from, to); }

  void* HostAddress(const Array&) override { return nullptr; }
  absl::StatusOr<Array> Adopt(void*, int64_t bytes) override {
    return absl::UnimplementedError(absl::StrCat("device/late cannot adopt ", bytes, " bytes of host memory"));
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

  std::vector<WaitPoint> waits() override { return engine_->waits(); }
  void LeaveOutWait(const WaitPoint& point) override { engine_->LeaveOutWait(point); }

 private:
  const int threads_;
  const std::shared_ptr<LateEngine> engine_;
  MemoryLedger ledger_;
  FirstError error_;
  CpuElementwise elementwise_;
  CpuTransformerKernels transformer_;
  CpuStepKernels step_;
  const std::unique_ptr<Device> host_;
};

}  // namespace

std::unique_ptr<LateDevice> MakeLateDevice(const LateOptions& options) { return std::make_unique<HostLateDevice>(options); }

}  // namespace zeroshard::device
