// A socket that listens on loopback, to be handed down to the rank that serves there.
//
// Example:
//   const LoopbackListener listener = ListenOnLoopback();
//   setenv("MASTER_PORT", std::to_string(listener.port).c_str(), 1);
#pragma once

#include "zeroshard/comm/port_range.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::tools {

struct LoopbackListener {
  comm::Socket socket;
  int port = 0;
};

// On 127.0.0.1, at a free port of `ports`. Where there is none: no socket, and the first of them, or torchrun's, 29500.
LoopbackListener ListenOnLoopback(const comm::PortRange& ports = {});

}  // namespace zeroshard::tools
