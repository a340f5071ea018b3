#include "zeroshard/device/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/cpu_attention.h"
#include "zeroshard/device/cpu/cpu_elementwise.h"
#include "zeroshard/device/cpu/cpu_event.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/cpu_step_kernels.h"
#include "zeroshard/device/cpu/cpu_stream.h"
#include "zeroshard/device/cpu/cpu_transformer_kernels.h"
#include "zeroshard/device/cpu/host_memory.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/host_launch.h"

namespace zeroshard::device {
namespace {

// Mapped memory that the ledger knows of.
class LedgerOwner final : public Buffer::Owner {
 public:
  LedgerOwner(HostMemory memory, MemoryLedger& ledger, Use use, int64_t bytes)
      : memory_(std::move(memory)), ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
  }
  ~LedgerOwner() override { ledger_.Credit(use_, bytes_); }

 private:
  HostMemory memory_;
  MemoryLedger& ledger_;
  const Use use_;
  const int64_t bytes_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : threads_(std::max(1, options.threads)), elementwise_(threads_), transformer_(threads_), step_(threads_) {}

  std::string_view name() const override { return "cpu"; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) override {
    absl::StatusOr<HostMemory> memory = HostMemory::Map(bytes);
    if (!memory.ok()) {
      const std::string message = absl::StrCat(std::string(what), ": ", memory.status().message(), "\n", ledger_.Table());
      return absl::Status(memory.status().code(), message);
    }
    const uint64_t address = reinterpret_cast<uint64_t>(memory->data());
    return Buffer(address, bytes, std::make_unique<LedgerOwner>(*std::move(memory), ledger_, use, bytes));
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) override {
    return Allocate(bytes, use, what);
  }
  void* HostPointer(const Buffer& host_buffer) override { return HostAddress(host_buffer.array(DType::kUint8)); }

  std::unique_ptr<Stream> MakeStream(StreamKind kind) override { return std::make_unique<CpuStream>(*this, kind); }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<CpuEvent>(); }

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

  void* HostAddress(const Array& array) override { return reinterpret_cast<void*>(array.address()); }
  absl::StatusOr<Array> Adopt(void* pointer, int64_t bytes) override {
    return Array(reinterpret_cast<uint64_t>(pointer), bytes, DType::kUint8);
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

 private:
  const int threads_;
  MemoryLedger ledger_;
  FirstError error_;
  CpuElementwise elementwise_;
  CpuTransformerKernels transformer_;
  CpuStepKernels step_;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice(const CpuDeviceOptions& options) { return std::make_unique<CpuDevice>(options); }

}  // namespace zeroshard::device
