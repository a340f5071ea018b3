// A socket that listens on loopback, to be handed down to the rank that serves there.
//
// Example:
//   const LoopbackListener listener = ListenOnLoopback();
//   setenv("MASTER_PORT", std::to_string(listener.port).c_str(), 1);
#pragma once

#include "zeroshard/comm/socket.h"

namespace zeroshard::tools {

struct LoopbackListener {
  comm::Socket socket;
  int port = 0;
};

// On 127.0.0.1, at a port of the system's choice. Where there is none: no socket, and torchrun's port, 29500.
LoopbackListener ListenOnLoopback();

}  // namespace zeroshard::tools
