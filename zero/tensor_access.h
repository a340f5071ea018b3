// One whole tensor, read or written by the host: collectives that move it between where ranks hold it and host memory, a piece at a
// time through a small staging buffer. They are counted as control traffic: no part of a step's data.
//
// Example: a parameter of which every rank holds its part of the section.
//   auto held = [&](int section) { return store.Held(section); };
//   ZS_RETURN_IF_ERROR(access->Read(parameter, held, /*scale=*/1.0, values));
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

namespace zeroshard::zero {

// Elements of the staging buffer: 1 MiB, or the largest tensor.
inline constexpr int64_t kStagingElements = int64_t{1} << 18;
int64_t StagingElements(const Layout& layout);

class TensorAccess {
 public:
  static absl::StatusOr<std::unique_ptr<TensorAccess>> Create(comm::Communicator& communicator, const Layout& layout,
                                                              const EngineOptions& options, device::Stream& compute);

  // What this rank holds of a section, [elements of its HoldingOf].
  using Held = absl::FunctionRef<device::Array(int section)>;

  // values = scale * the tensor, on every rank. Waits. Errors: the communicator's.
  absl::Status Read(int parameter, Held held, double scale, std::span<float> values);

  // Where a rank keeps what is written: a range of a section, and the memory of it.
  struct Home {
    Range range;
    device::Array memory;  // [range.count]
  };
  // The tensor = scale * rank 0's values, wherever a rank keeps any of it. Waits. Errors: the communicator's.
  absl::Status Write(int parameter, const Home& home, double scale, std::span<const float> values);

 private:
  TensorAccess(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
               device::Stream& compute);
  comm::CallOptions Call(std::string_view name);

  comm::Communicator* communicator_;
  const Layout* layout_;
  const EngineOptions* options_;
  device::Stream* compute_;
  device::Buffer staging_;
  std::unique_ptr<device::Event> ready_;  // compute is done with the staging buffer and with what is read
};

}  // namespace zeroshard::zero
