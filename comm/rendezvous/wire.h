// LastOperation to and from its message, and statuses to and from gRPC's.
//
// Example:
//   *beat.mutable_last() = ToWire(last);
//   const LastOperation last = FromWire(beat.last());
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "zeroshard/comm/last_operation.h"
#include "zeroshard/comm/rendezvous/rendezvous.pb.h"

namespace zeroshard::comm {

// The key of a call's metadata that holds the job's token.
inline constexpr char kTokenMetadata[] = "zeroshard-token";

rendezvous::LastOperation ToWire(const LastOperation& last);
// What cannot be is taken for the nearest that can.
LastOperation FromWire(const rendezvous::LastOperation& last);

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace zeroshard::comm
