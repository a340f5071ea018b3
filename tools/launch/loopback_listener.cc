#include "zeroshard/tools/launch/loopback_listener.h"

#include <utility>

#include "absl/status/statusor.h"
#include "zeroshard/comm/network_address.h"

namespace zeroshard::tools {

LoopbackListener ListenOnLoopback(const comm::PortRange& ports) {
  constexpr int kTorchsPort = 29500;
  absl::StatusOr<comm::Socket> listener = comm::ListenWithin("127.0.0.1", ports);
  const int port = listener.ok() ? comm::BoundPort(listener->get()) : 0;
  if (port == 0) return {.socket = comm::Socket(), .port = ports.any() ? kTorchsPort : ports.first};
  return {.socket = *std::move(listener), .port = port};
}

}  // namespace zeroshard::tools
