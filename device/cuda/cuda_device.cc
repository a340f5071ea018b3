#include "zeroshard/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/cpu/host_buffer.h"
#include "zeroshard/device/cuda/attention_makers.h"
#include "zeroshard/device/cuda/cuda_attention.h"
#include "zeroshard/device/cuda/cuda_elementwise.h"
#include "zeroshard/device/cuda/cuda_errors.h"
#include "zeroshard/device/cuda/cuda_event.h"
#include "zeroshard/device/cuda/cuda_gemm.h"
#include "zeroshard/device/cuda/cuda_memory.h"
#include "zeroshard/device/cuda/cuda_needs.h"
#include "zeroshard/device/cuda/cuda_status.h"
#include "zeroshard/device/cuda/cuda_step_kernels.h"
#include "zeroshard/device/cuda/cuda_stream.h"
#include "zeroshard/device/cuda/cuda_transformer_kernels.h"
#include "zeroshard/device/cuda/host_side.h"
#include "zeroshard/device/cuda/pinned_memory.h"
#include "zeroshard/device/cuda/profiler_ranges.h"
#include "zeroshard/device/gelu_after_gemm.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device::cuda {
namespace {

// A huge page: steps' scalars and tokens fit into one, what is larger has a piece of its own.
constexpr int64_t kPinnedPieceBytes = int64_t{2} << 20;

class DeviceOwner final : public Buffer::Owner {
 public:
  DeviceOwner(CudaMemory& memory, uint64_t address, MemoryLedger& ledger, Use use, int64_t bytes)
      : memory_(memory), address_(address), ledger_(ledger), use_(use), bytes_(bytes) {
    ledger_.Charge(use_, bytes_);
  }
  ~DeviceOwner() override {
    if (bytes_ > 0) memory_.Free(address_, bytes_);
    ledger_.Credit(use_, bytes_);
  }

 private:
  CudaMemory& memory_;
  const uint64_t address_;
  MemoryLedger& ledger_;
  const Use use_;
  const int64_t bytes_;
};

class OneCudaDevice final : public CudaDevice {
 public:
  OneCudaDevice(const CudaDeviceOptions& options, Gpu gpu)
      : gpu_(std::move(gpu)),
        errors_(absl::StrCat("device ", gpu_.ordinal, " (", gpu_.name, ")")),
        memory_(gpu_.ordinal, options.piece_bytes),
        piece_bytes_(options.piece_bytes),
        host_memory_(gpu_.ordinal, kPinnedPieceBytes),
        staging_(gpu_.ordinal, kPinnedPieceBytes),
        host_(MakeCpuDevice({.threads = options.threads, .memory = &host_memory_})),
        setup_(*this, gpu_.ordinal, StreamKind::kCompute, errors_) {}

  // What the constructor cannot say.
  absl::Status Start() {
    recorder().MarkRanges(&ProfilerRanges());
    ZS_RETURN_IF_ERROR(status());
    ZS_RETURN_IF_ERROR(LoadKernels(gpu_));
    ledger_.Predict(Use::kCommunication, kStepScratchBytes);
    ZS_ASSIGN_OR_RETURN(step_scratch_, Allocate(kStepScratchBytes, Use::kCommunication, "sums of norms"));
    step_ = std::make_unique<CudaStepKernels>(step_scratch_.array(DType::kUint8));
    return status();
  }

  std::string_view name() const override { return "cuda"; }
  const Gpu& gpu() const override { return gpu_; }
  int64_t piece_bytes() const override { return piece_bytes_; }

  int64_t UsedBytes() const override {
    const CardBytes on_card = OnCard();
    return on_card.total - on_card.free;
  }
  int64_t FreeBytes() const override { return OnCard().free; }

  // What the ledger files beside memory_'s and pinned memory is on the card, too: NCCL gave it (Communicator::Allocate).
  std::optional<CardMemory> card_memory() override {
    const HeldBytes held = memory_.held();
    const int64_t used = UsedBytes();
    int64_t filed = -staging_.held().asked;
    for (int use = 0; use < kUses; ++use) filed += ledger_.now(static_cast<Use>(use));
    most_used_ = std::max(most_used_, used);
    return CardMemory{.peak_bytes = most_used_,
                      .granularity_bytes = held.spare() + ledger_.granularity(),
                      .pinned_granularity_bytes = host_memory_.held().spare() + staging_.held().spare(),
                      .vendor_bytes = used - held.taken - (filed - held.asked) - ledger_.granularity()};
  }
  double PeakFlops(DType dtype) const override { return DensePeakFlops(gpu_, dtype); }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) override {
    if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
    uint64_t address = 0;
    if (bytes > 0) {
      const absl::StatusOr<uint64_t> made = memory_.Allocate(bytes);
      if (!made.ok()) return AllocationError(made.status(), what, ledger_);
      address = *made;
      ZS_RETURN_IF_ERROR(Zero(address, bytes));
    }
    return Buffer(address, bytes, std::make_unique<DeviceOwner>(memory_, address, ledger_, use, bytes));
  }
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) override {
    return AllocateHostBuffer(bytes, use, what, ledger_, &staging_);
  }
  void* HostPointer(const Buffer& host_buffer) override {
    return reinterpret_cast<void*>(host_buffer.array(DType::kUint8).address());
  }

  Device& host() override { return *host_; }

  std::unique_ptr<Stream> MakeStream(StreamKind kind) override {
    return std::make_unique<CudaStream>(*this, gpu_.ordinal, kind, errors_);
  }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<CudaEvent>(gpu_.ordinal, errors_); }

  void CopyToHost(Stream& stream, In from, void* to) override {
    CopyAsync(stream, to, reinterpret_cast<const void*>(from.array.address()), from.array.bytes(), cudaMemcpyDeviceToHost,
              "copying to the host");
  }
  void CopyFromHost(Stream& stream, const void* from, Out to) override {
    CopyAsync(stream, reinterpret_cast<void*>(to.array.address()), from, to.array.bytes(), cudaMemcpyHostToDevice,
              "copying from the host");
  }

  void* HostAddress(const Array&) override { return nullptr; }

  absl::StatusOr<Array> Adopt(void* pointer, int64_t bytes) override {
    cudaPointerAttributes attributes;
    ZS_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(gpu_.ordinal), "selecting the device"));
    ZS_RETURN_IF_ERROR(CudaStatus(cudaPointerGetAttributes(&attributes, pointer), "asking whose memory it is"));
    if (attributes.type == cudaMemoryTypeDevice && attributes.device == gpu_.ordinal) {
      return Array(reinterpret_cast<uint64_t>(pointer), bytes, DType::kUint8);
    }
    return absl::UnimplementedError(absl::StrCat("device/cuda cannot adopt ", bytes, " bytes that are not its own GPU's"));
  }

  // A plan's first run takes as much memory as the model's largest activations, in a piece that these, one buffer, would not fit into.
  absl::StatusOr<std::unique_ptr<Gemm>> PlanGemm(const GemmSpec& spec) override {
    std::lock_guard<std::mutex> lock(planning_);
    const absl::Cleanup give_back = [this] { memory_.GiveBackUnused(); };
    ZS_RETURN_IF_ERROR(MakeProducts());
    return products_->Plan(spec);
  }
  absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluGemm(const GemmSpec& spec) override {
    {
      std::lock_guard<std::mutex> lock(planning_);
      const absl::Cleanup give_back = [this] { memory_.GiveBackUnused(); };
      ZS_RETURN_IF_ERROR(MakeProducts());
      auto both = products_->PlanGelu(spec);
      if (!absl::IsUnimplemented(both.status())) return both;
    }
    return PlanGeluAfterGemm(*this, spec);
  }
  absl::StatusOr<std::unique_ptr<Attention>> PlanAttention(const AttentionSpec& spec) override {
    std::lock_guard<std::mutex> lock(planning_);
    const absl::Cleanup give_back = [this] { memory_.GiveBackUnused(); };
    return PlanCudaAttention(spec, *this, setup_, attention_makers_);
  }

  std::string ProductChoices() const override {
    std::lock_guard<std::mutex> lock(planning_);
    return products_ == nullptr ? choices_ : absl::StrCat(products_->Choices(), attention_makers_.Text());
  }
  absl::Status TakeProductChoices(std::string_view choices) override {
    std::lock_guard<std::mutex> lock(planning_);
    ZS_ASSIGN_OR_RETURN(choices_, attention_makers_.Check(choices));
    const absl::Cleanup give_back = [this] { memory_.GiveBackUnused(); };
    return products_ == nullptr ? absl::OkStatus() : products_->TakeChoices(choices_);
  }

  Elementwise& elementwise() override { return elementwise_; }
  TransformerKernels& transformer() override { return transformer_; }
  StepKernels& step() override { return *step_; }
  MemoryLedger& ledger() override { return ledger_; }
  absl::Status status() const override { return errors_.status(); }

 private:
  struct CardBytes {
    int64_t free, total;
  };
  // All free, where the driver does not say.
  CardBytes OnCard() const {
    size_t free = 0, total = 0;
    if (cudaSetDevice(gpu_.ordinal) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) {
      return {gpu_.memory_bytes, gpu_.memory_bytes};
    }
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  absl::Status MakeProducts() {
    if (products_ != nullptr) return absl::OkStatus();
    ZS_ASSIGN_OR_RETURN(products_, CudaProducts::Make(*this, setup_, gpu_.architecture));
    return choices_.empty() ? absl::OkStatus() : products_->TakeChoices(choices_);
  }

  // On a stream of the device's own, and waited for: whoever is handed the memory has nothing to wait for.
  absl::Status Zero(uint64_t address, int64_t bytes) {
    std::lock_guard<std::mutex> lock(zeroing_);
    const cudaError_t error =
        cudaMemsetAsync(reinterpret_cast<void*>(address), 0, static_cast<size_t>(bytes), setup_.native());
    ZS_RETURN_IF_ERROR(CudaStatus(error, "zeroing memory"));
    setup_.Synchronize();
    HostHandsOver(gpu_.ordinal);
    return status();
  }

  static void CopyAsync(Stream& stream, void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, const char* doing) {
    if (bytes == 0) return;
    CudaStream& on = CudaStream::Of(stream);
    const VendorScope scope;
    on.Keep(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, on.native()), doing);
  }

  const Gpu gpu_;
  MemoryLedger ledger_;
  int64_t most_used_ = 0;
  CudaErrors errors_;
  CudaMemory memory_;
  const int64_t piece_bytes_;
  PinnedMemory host_memory_;  // of the host beside it
  PinnedMemory staging_;      // what AllocateHost gives, which this device's ledger files
  const std::unique_ptr<Device> host_;
  std::mutex zeroing_;
  CudaStream setup_;
  CudaElementwise elementwise_;
  CudaTransformerKernels transformer_;
  Buffer step_scratch_;
  std::unique_ptr<CudaStepKernels> step_;
  mutable std::mutex planning_;
  std::string choices_;  // taken before the first plan
  AttentionMakers attention_makers_;
  std::unique_ptr<CudaProducts> products_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options) {
  ZS_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, FindGpus());
  if (options.ordinal < 0 || options.ordinal >= static_cast<int>(gpus.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", options.ordinal, ": ", gpus.size(), " GPUs are visible, from 0 on"));
  }
  auto device = std::make_unique<OneCudaDevice>(options, gpus[static_cast<size_t>(options.ordinal)]);
  ZS_RETURN_IF_ERROR(device->Start());
  return device;
}

}  // namespace zeroshard::device::cuda
