#include "zeroshard/trainer/host_collectives.h"

#include <memory>

#include "zeroshard/device/device.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {

using device::Array;
using device::DType;

absl::Status OnHostBytes(comm::Communicator& communicator, void* bytes, int64_t count, DType dtype, std::string_view label,
                         Collective collective) {
  device::Device& device = communicator.device();
  ZS_ASSIGN_OR_RETURN(const device::Buffer buffer,
                      device.Allocate(count * device::SizeOf(dtype), device::Use::kData, label));
  const Array array = buffer.array(dtype);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  device.CopyFromHost(*stream, bytes, array);
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(collective(array, {.wait_at_once = true, .traffic = comm::Traffic::kControl, .label = label}).Wait());
  device.CopyToHost(*stream, array, bytes);
  stream->Synchronize();
  return device.status();
}

absl::Status BroadcastText(comm::Communicator& communicator, int root, std::string& text, std::string_view label) {
  const auto broadcast = [&](const Array& array, const comm::CallOptions& options) {
    return communicator.Broadcast(array, array, root, options);
  };
  auto size = static_cast<int64_t>(text.size());
  ZS_RETURN_IF_ERROR(OnHostBytes(communicator, &size, 1, DType::kInt64, label, broadcast));
  text.resize(static_cast<size_t>(size));
  return size == 0 ? absl::OkStatus() : OnHostBytes(communicator, text.data(), size, DType::kUint8, label, broadcast);
}

}  // namespace zeroshard::trainer
