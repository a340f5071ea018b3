// The parameters of stage 3 outside device memory: this rank's part of all sections, in the compute dtype, in host memory or in
// a file.
//
// A gather begins with Bring: the rank's part goes up to its place in the slot, from which the others get it. The update takes
// it sub-group by sub-group as it takes StateTier, and writes it there. Elements are those of the rank's shard buffer
// (layout.h), of which the trainable ones are the optimizer's flat state.
//
// Bring is of the rank's thread, and Fetch to Finish of the update's: never at the same time, since an update begins when all
// gathers have ended.
//
// Example:
//   tier->Bring({.first = section.shard_first[rank], .to = slot.Slice(...), .after = {released, written}, .brought = brought});
//   communicator.AllGather(..., {.after = {brought}});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/offload/host_thread.h"
#include "zeroshard/zero/offload/offload_plan.h"
#include "zeroshard/zero/offload/state_file.h"

namespace zeroshard::zero {

// Bytes that are read from a file together, twice: several pieces of file_queue.h.
inline constexpr int64_t kBringBytes = 4 * kMostPieceBytes;
// Elements that are read or written by name together.
inline constexpr int64_t kNamedElements = int64_t{1} << 18;
// Bytes of the host's memory that a ParameterTier takes beside the parameters and the update's buffers; of its file.
int64_t ParameterStagingBytes(const EngineOptions& options);
int64_t ParameterFileBytes(const Layout& layout, const EngineOptions& options, int rank);

class ParameterTier {
 public:
  // Zeros, in the ledger of the device's host. All references outlive it; `options` are valid. Errors: kResourceExhausted;
  // kInvalidArgument, naming the folder.
  static absl::StatusOr<std::unique_ptr<ParameterTier>> Create(device::Device& device, const Layout& layout,
                                                               const EngineOptions& options, int rank);

  struct Piece {
    int64_t first = 0;                               // of the shard buffer
    device::Array to;                                // [elements] in device memory, of the compute dtype
    std::array<const device::Event*, 2> after = {};  // recorded before the call, and not again until `brought`
    device::Event* brought = nullptr;  // recorded at the end, of this piece and all before it; null: not asked for
  };
  // Returns at once.
  void Bring(const Piece& piece);

  // See StateTier; the parameters that the sub-group updates, [elements], from Await to Store. Finish: all of it is stored.
  // `reads`: their values are wanted, or not all of them are going to be written.
  absl::Status Fetch(int64_t group, bool reads);
  absl::Status Await(int64_t group);
  device::Array Of(int64_t group) const;
  void Store(int64_t group);
  absl::Status Finish();

  // to = a range of the shard buffer, fp32, and back. Wait, on `stream` too.
  absl::Status Read(device::Stream& stream, Range range, const device::Array& to);
  absl::Status Write(device::Stream& stream, Range range, const device::Array& from);

  // The first error of a Bring.
  absl::Status status() const { return error_.status(); }

 private:
  // What of the file is in memory: whole pages, and where the elements begin there.
  struct Pages {
    int64_t offset = 0;
    int64_t bytes = 0;
    int64_t skipped = 0;
  };
  struct Buffer {
    device::Buffer memory;  // of one sub-group
    Transfer read;
    Transfer written;
  };

  ParameterTier(device::Device& device, const Layout& layout, const EngineOptions& options, int rank);
  absl::Status Allocate(const EngineOptions& options);
  void BringFromFile(const Piece& piece);
  absl::Status ReadUp(const Piece& piece);
  int64_t OffsetOf(int64_t element) const;
  Pages PagesOf(Range range) const;
  std::byte* Staging(int half) const;
  // Read (up) or Write (down).
  enum class Direction : uint8_t { kUp, kDown };
  absl::Status Carry(device::Stream& stream, Range range, const device::Array& on_device, Direction direction);
  // A range of no more than kNamedElements in host memory, until Close.
  absl::StatusOr<device::Array> Open(Range range);
  absl::Status Close(Range range, bool written);
  std::byte* HostBytes(const device::Array& array) const { return static_cast<std::byte*>(host_->HostAddress(array)); }

  device::Device* device_;
  device::Device* host_;
  const OffloadPlan plan_;
  const device::DType dtype_;
  const int64_t trainable_;
  const int64_t elements_;
  device::Buffer memory_;        // all of it; empty if in a file
  std::vector<Buffer> buffers_;  // of the update, if in a file
  device::Buffer staging_;
  std::array<Transfer, 2> reads_up_;
  std::array<std::unique_ptr<device::Event>, 2> sent_;  // half of the staging memory is free
  std::unique_ptr<device::Stream> up_;
  std::unique_ptr<device::Stream> cores_;  // the host's
  std::unique_ptr<StateFile> file_;
  device::FirstError error_;
  std::array<Piece, HostThread::kMostJobs + 2> pieces_;
  int64_t posted_ = 0;
  std::unique_ptr<HostThread> thread_;  // null if in memory
};

}  // namespace zeroshard::zero
