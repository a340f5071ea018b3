#include "zeroshard/comm/rendezvous/wire.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace zeroshard::comm {

rendezvous::LastOperation ToWire(const LastOperation& last) {
  rendezvous::LastOperation wire;
  wire.set_number(last.number);
  wire.set_kind(static_cast<uint32_t>(last.kind));
  wire.set_dtype(static_cast<uint32_t>(last.dtype));
  wire.set_count(last.count);
  wire.set_label(std::string(last.label.data()));
  wire.set_group(std::string(last.group.data()));
  wire.set_ended(last.ended);
  return wire;
}

LastOperation FromWire(const rendezvous::LastOperation& wire) {
  LastOperation last;
  last.number = wire.number();
  last.kind = static_cast<OpKind>(std::min(wire.kind(), static_cast<uint32_t>(OpKind::kFinalize)));
  last.dtype = static_cast<device::DType>(std::min(wire.dtype(), static_cast<uint32_t>(device::DType::kUint8)));
  last.count = wire.count();
  wire.label().copy(last.label.data(), last.label.size() - 1);
  wire.group().copy(last.group.data(), last.group.size() - 1);
  last.ended = wire.ended();
  return last;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace zeroshard::comm
