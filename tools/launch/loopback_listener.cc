#include "zeroshard/tools/launch/loopback_listener.h"

#include <sys/socket.h>

#include <utility>

#include "absl/status/statusor.h"
#include "zeroshard/comm/network_address.h"

namespace zeroshard::tools {

LoopbackListener ListenOnLoopback(const comm::PortRange& ports) {
  constexpr int kTorchsPort = 29500;
  absl::StatusOr<comm::Socket> listener = comm::ListenWithin("127.0.0.1", ports);
  sockaddr_storage address;
  socklen_t length = sizeof(address);
  if (!listener.ok() || getsockname(listener->get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return {.socket = comm::Socket(), .port = ports.any() ? kTorchsPort : ports.first};
  }
  return {.socket = *std::move(listener), .port = comm::PortOf(address)};
}

}  // namespace zeroshard::tools
