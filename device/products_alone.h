// A device of which only products and attention do anything: whatever is run on it takes the time of its own products back to back.
//
// It stands before another device: plans, memory, streams and events are that one's; other kernels and copies are left out. Memory holds
// random numbers of one magnitude, which a GPU multiplies at the clocks of a true run (zeros draw less power, and run faster).
//
// Example:
//   ProductsAlone products(device);
//   ZS_ASSIGN_OR_RETURN(auto rank, model::SingleRank::Create(products, options));
//   ZS_RETURN_IF_ERROR(rank->Run(micro_batch, WriteMode::kOverwrite));     // its products, and nothing else
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "zeroshard/device/device.h"

namespace zeroshard::device {

class ProductsAlone final : public Device {
 public:
  // `device` outlives it.
  explicit ProductsAlone(Device& device);
  ~ProductsAlone() override;

  std::string_view name() const override { return inner_.name(); }
  // Filled, and not zeroed.
  absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) override;
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) override {
    return inner_.AllocateHost(bytes, use, what);
  }
  void* HostPointer(const Buffer& host_buffer) override { return inner_.HostPointer(host_buffer); }
  Device& host() override { return inner_.host(); }
  std::unique_ptr<Stream> MakeStream(StreamKind kind) override;
  std::unique_ptr<Event> MakeEvent() override { return inner_.MakeEvent(); }
  void CopyToHost(Stream& /*stream*/, In /*from*/, void* /*to*/) override {}
  void CopyFromHost(Stream& /*stream*/, const void* /*from*/, Out /*to*/) override {}
  void* HostAddress(const Array& array) override { return inner_.HostAddress(array); }
  absl::StatusOr<Array> Adopt(void* pointer, int64_t bytes) override { return inner_.Adopt(pointer, bytes); }

  absl::StatusOr<std::unique_ptr<Gemm>> PlanGemm(const GemmSpec& spec) override;
  absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluGemm(const GemmSpec& spec) override;
  absl::StatusOr<std::unique_ptr<Attention>> PlanAttention(const AttentionSpec& spec) override;

  Elementwise& elementwise() override { return *elementwise_; }
  TransformerKernels& transformer() override { return *transformer_; }
  StepKernels& step() override { return inner_.step(); }
  MemoryLedger& ledger() override { return inner_.ledger(); }
  double PeakFlops(DType dtype) const override { return inner_.PeakFlops(dtype); }
  absl::Status status() const override { return inner_.status(); }

 private:
  void FillRandomly(const Buffer& buffer);

  Device& inner_;
  std::unique_ptr<Elementwise> elementwise_;
  std::unique_ptr<TransformerKernels> transformer_;
  std::mutex filling_;
  std::unique_ptr<Stream> setup_;
};

}  // namespace zeroshard::device
