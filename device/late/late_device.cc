#include "zeroshard/device/late/late_device.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/cpu_attention.h"
#include "zeroshard/device/cpu/cpu_elementwise.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/cpu_step_kernels.h"
#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
#include "zeroshard/device/cpu/host_memory.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/late/late_engine.h"
#include "zeroshard/device/late/late_stream.h"

namespace zeroshard::device {
namespace {

// What both kinds of owner do: charge at birth, credit at death.
class LedgerOwner : public Buffer::Owner {
 public:
  LedgerOwner(MemoryLedger& ledger, Use use, int64_t bytes) : ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
  }
  ~LedgerOwner() override { ledger_.Credit(use_, bytes_); }

 protected:
  int64_t bytes() const { return bytes_; }

 private:
  MemoryLedger& ledger_;
  const Use use_;
  const int64_t bytes_;
};

class DeviceOwner final : public LedgerOwner {
 public:
  DeviceOwner(std::shared_ptr<LateEngine> engine, uint64_t address, MemoryLedger& ledger, Use use, int64_t bytes)
      : LedgerOwner(ledger, use, bytes), engine_(std::move(engine)), address_(address) {}
  ~DeviceOwner() override { engine_->Free(address_, bytes()); }

 private:
  const std::shared_ptr<LateEngine> engine_;
  const uint64_t address_;
};

class HostOwner final : public LedgerOwner {
 public:
  HostOwner(HostMemory memory, MemoryLedger& ledger, Use use, int64_t bytes)
      : LedgerOwner(ledger, use, bytes), memory_(std::move(memory)) {}

 private:
  const HostMemory memory_;
};

class HostLateDevice final : public LateDevice {
 public:
  explicit HostLateDevice(const LateOptions& options)
      : threads_(std::max(1, options.threads)),
        engine_(std::make_shared<LateEngine>(options)),
        elementwise_(threads_),
        transformer_(threads_),
        step_(threads_) {}

  std::string_view name() const override { return "late"; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) override {
    const absl::StatusOr<uint64_t> address = engine_->Allocate(bytes, what);
    if (!address.ok()) return Refused(what, address.status());
    return Buffer(*address, bytes, std::make_unique<DeviceOwner>(engine_, *address, ledger_, use, bytes));
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) override {
    absl::StatusOr<HostMemory> memory = HostMemory::Map(bytes);
    if (!memory.ok()) return Refused(what, memory.status());
    const uint64_t address = reinterpret_cast<uint64_t>(memory->data());
    return Buffer(address, bytes, std::make_unique<HostOwner>(*std::move(memory), ledger_, use, bytes));
  }
  void* HostPointer(const Buffer& host_buffer) override {
    return reinterpret_cast<void*>(host_buffer.array(DType::kUint8).address());
  }

  std::unique_ptr<Stream> MakeStream(StreamKind kind) override { return std::make_unique<LateStream>(*this, engine_, kind); }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<LateEvent>(engine_); }

  void CopyToHost(Stream& stream, In from, void* to) override {
    const auto copy = [to](std::span<const std::byte> x) {
      if (!x.empty()) std::memcpy(to, x.data(), x.size());
    };
    HostLaunch(stream, "copy to host", copy, Read<std::byte>(from));
  }
  void CopyFromHost(Stream& stream, const void* from, Out to) override {
    const auto copy = [from](std::span<std::byte> y) {
      if (!y.empty()) std::memcpy(y.data(), from, y.size());
    };
    HostLaunch(stream, "copy from host", copy, Write<std::byte>(to));
  }

  void* HostAddress(const Array&) override { return nullptr; }
  absl::StatusOr<Array> Adopt(void*, int64_t bytes) override {
    return absl::UnimplementedError(absl::StrCat("device/late cannot adopt ", bytes, " bytes of host memory"));
  }

  absl::StatusOr<std::unique_ptr<Gemm>> PlanGemm(const GemmSpec& spec) override {
    return PlanCpuGemm(spec, threads_, *this, error_);
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
  absl::Status Refused(std::string_view what, const absl::Status& why) const {
    return absl::Status(why.code(), absl::StrCat(std::string(what), ": ", why.message(), "\n", ledger_.Table()));
  }

  const int threads_;
  const std::shared_ptr<LateEngine> engine_;
  MemoryLedger ledger_;
  FirstError error_;
  CpuElementwise elementwise_;
  CpuTransformerKernels transformer_;
  CpuStepKernels step_;
};

}  // namespace

std::unique_ptr<LateDevice> MakeLateDevice(const LateOptions& options) { return std::make_unique<HostLateDevice>(options); }

}  // namespace zeroshard::device
