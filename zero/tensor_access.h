// One whole tensor, read or written by the host: collectives that move it between where ranks hold it and host memory, a piece at a
// time through a small staging buffer. They are counted as control traffic: no part of a step's data.
//
// Example: a parameter of which every rank holds its part of the section.
//   auto source = [&](int section, Range part, Array to) {
//     device.elementwise().Convert(compute, store.Held(section).Slice(part.first, part.count), to);
//     return absl::OkStatus();
//   };
//   ZS_RETURN_IF_ERROR(access->Read(parameter, source, /*scale=*/1.0, values));
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"
#include "zeroshard/zero/rank_groups.h"

namespace zeroshard::zero {

// Elements of the staging buffer: 1 MiB, or the largest tensor.
inline constexpr int64_t kStagingElements = int64_t{1} << 18;
int64_t StagingElements(const Layout& layout);

class TensorAccess {
 public:
  static absl::StatusOr<std::unique_ptr<TensorAccess>> Create(const RankGroups& ranks, const Layout& layout,
                                                              const EngineOptions& options, device::Stream& compute);

  // Queues on compute: to = `part` of what this rank holds of a section (HoldingOf), as fp32.
  using Source = absl::FunctionRef<absl::Status(int section, Range part, device::Array to)>;
  // values = scale * the tensor, on every rank. Waits. Errors: the communicator's, the source's.
  absl::Status Read(int parameter, Source source, double scale, std::span<float> values);

  // Queues on compute: whatever this rank keeps of `piece` of the parameter's section = from, fp32.
  using Sink = absl::FunctionRef<absl::Status(Range piece, device::Array from)>;
  // The tensor = scale * rank 0's values, wherever a rank keeps any of it. Waits. Errors: the communicator's, the sink's.
  absl::Status Write(int parameter, Sink sink, double scale, std::span<const float> values);

 private:
  TensorAccess(const RankGroups& ranks, const Layout& layout, const EngineOptions& options, device::Stream& compute);
  comm::CallOptions Call(std::string_view name);
  absl::Status QueueRead(int parameter, Source source, std::span<float> values);
  absl::Status QueueWrite(int parameter, Sink sink, double scale, std::span<const float> values);

  comm::Communicator* all_;
  comm::Communicator* shard_;  // who holds the parts of it
  const Layout* layout_;
  const EngineOptions* options_;
  device::Stream* compute_;
  device::Buffer staging_;
  std::unique_ptr<device::Event> ready_;  // compute is done with the staging buffer and with what is read
};

}  // namespace zeroshard::zero
