// The first bytes of a connection to the rendezvous: by them, and before any byte reaches gRPC, rank 0 knows a rank of its job.
//
// The token comes at a fixed place of a message of fixed size, so that a stranger's bytes are never parsed. The answer is one byte.
//
// Example:
//   const RendezvousGreeting greeting = MakeRendezvousGreeting(token);
//   send(socket, &greeting, sizeof(greeting), MSG_NOSIGNAL);
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "zeroshard/comm/rendezvous/job_token.h"

namespace zeroshard::comm {

struct RendezvousGreeting {
  char magic[8];
  uint32_t token_bytes;
  char token[kMostTokenBytes];
};
static_assert(sizeof(RendezvousGreeting) == 12 + kMostTokenBytes);

// The last byte counts versions of what follows the greeting.
inline constexpr char kRendezvousMagic[8] = {'z', 's', 'm', 'e', 'e', 't', '\n', 1};

inline constexpr char kRendezvousWelcome = 'w';
inline constexpr char kRendezvousRefusal = 'r';

// `token` has kMostTokenBytes at the most.
inline RendezvousGreeting MakeRendezvousGreeting(std::string_view token) {
  RendezvousGreeting greeting = {};
  std::memcpy(greeting.magic, kRendezvousMagic, sizeof(kRendezvousMagic));
  greeting.token_bytes = static_cast<uint32_t>(token.size());
  std::memcpy(greeting.token, token.data(), token.size());
  return greeting;
}

// Whether the bytes show `token`.
inline bool ShowsToken(const RendezvousGreeting& greeting, std::string_view token) {
  if (std::memcmp(greeting.magic, kRendezvousMagic, sizeof(kRendezvousMagic)) != 0) return false;
  if (greeting.token_bytes > kMostTokenBytes) return false;
  return SameToken(token, std::string_view(greeting.token, greeting.token_bytes));
}

}  // namespace zeroshard::comm
