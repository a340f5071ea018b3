// Greeting: the first bytes of a connection, by which each end proves to the other which rank of which group it is.
//
// The connecting side sends one that shows the listener's token, the listener answers with one that shows the other's.
//
// Example:
//   Greeting greeting = MakeGreeting({.rank = 1, .world_size = 4, .kind = ConnectionKind::kLine}, listeners_token);
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "zeroshard/comm/rendezvous/job_token.h"

namespace zeroshard::backends {

enum class ConnectionKind : uint32_t { kData = 0, kLine = 1 };

inline constexpr size_t kTokenBytes = 32;

// On the wire, as it is in memory: all ranks are little-endian x86-64.
struct Greeting {
  char magic[8];
  uint32_t rank;
  uint32_t world_size;
  uint32_t kind;
  uint32_t reserved;
  char token[kTokenBytes];
};
static_assert(sizeof(Greeting) == 56);

struct Greeter {
  int rank = 0;
  int world_size = 1;
  ConnectionKind kind = ConnectionKind::kData;
};

inline constexpr char kGreetingMagic[8] = {'z', 's', 'h', 'a', 'r', 'd', '\n', 1};

// `token` has kTokenBytes.
inline Greeting MakeGreeting(const Greeter& greeter, std::string_view token) {
  Greeting greeting = {};
  std::memcpy(greeting.magic, kGreetingMagic, sizeof(kGreetingMagic));
  greeting.rank = static_cast<uint32_t>(greeter.rank);
  greeting.world_size = static_cast<uint32_t>(greeter.world_size);
  greeting.kind = static_cast<uint32_t>(greeter.kind);
  std::memcpy(greeting.token, token.data(), kTokenBytes);
  return greeting;
}

// Who greets, or nothing where the bytes are no greeting that shows `token` to a group of `world_size`.
inline std::optional<Greeter> CheckGreeting(const Greeting& greeting, int world_size, std::string_view token) {
  if (std::memcmp(greeting.magic, kGreetingMagic, sizeof(kGreetingMagic)) != 0) return std::nullopt;
  if (!comm::SameToken(token, std::string_view(greeting.token, kTokenBytes))) return std::nullopt;
  if (greeting.world_size != static_cast<uint32_t>(world_size) || greeting.rank >= greeting.world_size) return std::nullopt;
  if (greeting.kind > static_cast<uint32_t>(ConnectionKind::kLine) || greeting.reserved != 0) return std::nullopt;
  return Greeter{static_cast<int>(greeting.rank), world_size, static_cast<ConnectionKind>(greeting.kind)};
}

}  // namespace zeroshard::backends
