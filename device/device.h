// A Device: memory, streams, events, kernels and planned products of one rank.
//
// Everything that computes is an operation on a stream; memory is opaque (array.h). One Device belongs to one rank, and owns the
// rank's MemoryLedger. Its methods are thread-safe; its streams are used by one thread at a time.
//
// Example:
//   std::unique_ptr<Device> device = MakeCpuDevice();
//   ZS_ASSIGN_OR_RETURN(Buffer x, device->Allocate(4 * n, Use::kActivations, "x"));
//   std::unique_ptr<Stream> compute = device->MakeStream(StreamKind::kCompute);
//   device->elementwise().Fill(*compute, x.array(DType::kFloat32), 1.0);
//   float first;
//   device->CopyToHost(*compute, x.array(DType::kFloat32).Slice(0, 1), &first);
//   compute->Synchronize();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/attention.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/elementwise.h"
#include "zeroshard/device/event.h"
#include "zeroshard/device/gelu_gemm.h"
#include "zeroshard/device/gemm.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/recorder.h"
#include "zeroshard/device/step_kernels.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device {

// What is in use on a card of its own memory beside what the ledger files.
struct CardMemory {
  int64_t peak_bytes = 0;                // the most that was seen in use on the card, by whomever
  int64_t granularity_bytes = 0;         // held beyond what was asked for
  int64_t pinned_granularity_bytes = 0;  // of pinned host memory, likewise
  int64_t vendor_bytes = 0;              // the driver's, the libraries', other processes'
};

// Every allocation starts on a multiple of this.
inline constexpr int64_t kAlignmentBytes = 256;

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu", "late", "cuda"

  // Zeroed memory, touched once, filed under `use`. `what` names it in errors. bytes == 0 gives an empty, valid Buffer.
  // Errors: kResourceExhausted, with the ledger's table.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes, Use use, std::string_view what) = 0;
  // Host memory that copies to and from this device go fastest through (pinned on a GPU); HostPointer reads it.
  virtual absl::StatusOr<Buffer> AllocateHost(int64_t bytes, Use use, std::string_view what) = 0;
  // The host address of memory from AllocateHost.
  virtual void* HostPointer(const Buffer& host_buffer) = 0;

  // The memory and cores of the host, as a device with a ledger of its own: where offloaded state lives and is updated. Copies between
  // its memory and this device's are the fastest (pinned on a GPU); HostAddress answers; its streams run at once, on the caller. It
  // is the machine's memory apart from this device's also where both are the host's (device/cpu). Lives as long as this device.
  virtual Device& host() = 0;

  virtual std::unique_ptr<Stream> MakeStream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> MakeEvent() = 0;

  // Queued copies between device memory and host memory of array.bytes() bytes. The host memory stays valid, and is read or
  // written by nobody else, until the stream has come past the copy.
  virtual void CopyToHost(Stream& stream, In from, void* to) = 0;
  virtual void CopyFromHost(Stream& stream, const void* from, Out to) = 0;

  // The one door for host transports: the address of `array` where host code may touch it, null where it may not (device/late,
  // device/cuda): there the transport stages through host memory of its own.
  virtual void* HostAddress(const Array& array) = 0;
  // Makes memory that a transport allocated or mapped into this device's: [bytes] at `pointer`. The caller keeps it alive.
  // Errors: kUnimplemented where host memory cannot be the device's.
  virtual absl::StatusOr<Array> Adopt(void* pointer, int64_t bytes) = 0;

  // Errors of planning: kInvalidArgument for a shape, kUnimplemented for dtypes that the device has no product for.
  virtual absl::StatusOr<std::unique_ptr<Gemm>> PlanGemm(const GemmSpec& spec) = 0;
  virtual absl::StatusOr<std::unique_ptr<GeluGemm>> PlanGeluGemm(const GemmSpec& spec) = 0;
  virtual absl::StatusOr<std::unique_ptr<Attention>> PlanAttention(const AttentionSpec& spec) = 0;

  // Which algorithm each planned product runs by, for a device that has a choice; else empty. Ranks have the same bits only with the same
  // algorithms: rank 0's go to all ranks, once all is planned and before the first product, and into what is saved.
  virtual std::string ProductChoices() const { return {}; }
  // Errors: kFailedPrecondition where they were made for another library, card or model; kInvalidArgument if it is no such text.
  virtual absl::Status TakeProductChoices(std::string_view choices) {
    if (choices.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError("products' algorithms were chosen for another device than this rank's");
  }

  virtual Elementwise& elementwise() = 0;
  virtual TransformerKernels& transformer() = 0;
  virtual StepKernels& step() = 0;

  virtual MemoryLedger& ledger() = 0;
  // Now; nothing where the device has no memory of its own.
  virtual std::optional<CardMemory> card_memory() { return std::nullopt; }
  // Floating-point operations a second that products of `dtype` can come to, by the maker's numbers; 0: nobody says.
  virtual double PeakFlops(DType /*dtype*/) const { return 0; }
  // The first error of any operation so far; it stays.
  virtual absl::Status status() const = 0;

  // What the rank did, and when.
  Recorder& recorder() { return *recorder_; }
  // For those who may look at it when the device is gone.
  std::shared_ptr<const Recorder> shared_recorder() const { return recorder_; }

 private:
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

}  // namespace zeroshard::device
