#include "zeroshard/trainer/product_choices.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

using device::Array;
using device::DType;

// `bytes` becomes rank 0's.
absl::Status BroadcastBytes(comm::Communicator& communicator, void* bytes, int64_t count) {
  device::Device& device = communicator.device();
  ZS_ASSIGN_OR_RETURN(const device::Buffer buffer, device.Allocate(count, device::Use::kData, "products' algorithms"));
  const Array array = buffer.array(DType::kUint8);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  device.CopyFromHost(*stream, bytes, array);
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(communicator
                         .Broadcast(array, array, /*root=*/0,
                                    {.wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "product choices"})
                         .Wait());
  device.CopyToHost(*stream, array, bytes);
  stream->Synchronize();
  return device.status();
}

}  // namespace

absl::Status ShareProductChoices(comm::Communicator& communicator) {
  std::string choices = communicator.device().ProductChoices();
  if (choices.empty() || communicator.world_size() == 1) return absl::OkStatus();
  auto size = static_cast<int64_t>(choices.size());
  ZS_RETURN_IF_ERROR(BroadcastBytes(communicator, &size, sizeof size));
  choices.resize(static_cast<size_t>(size));
  ZS_RETURN_IF_ERROR(BroadcastBytes(communicator, choices.data(), size));
  const absl::Status taken = communicator.device().TakeProductChoices(choices);
  if (taken.ok()) return taken;
  return absl::Status(taken.code(), absl::StrCat("rank ", communicator.rank(), ", from rank 0: ", taken.message()));
}

}  // namespace zeroshard::trainer
