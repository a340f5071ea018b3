#include "zeroshard/tools/launch/loopback_listener.h"

#include <sys/socket.h>

#include <utility>

#include "zeroshard/comm/network_address.h"

namespace zeroshard::tools {

LoopbackListener ListenOnLoopback() {
  constexpr int kTorchsPort = 29500;
  comm::Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage address;
  socklen_t length = comm::MakeSocketAddress("127.0.0.1", 0, address);
  auto* const bare = reinterpret_cast<sockaddr*>(&address);
  if (!listener || bind(listener.get(), bare, length) != 0 || listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), bare, &length) != 0) {
    return {.socket = comm::Socket(), .port = kTorchsPort};
  }
  return {.socket = std::move(listener), .port = comm::PortOf(address)};
}

}  // namespace zeroshard::tools
