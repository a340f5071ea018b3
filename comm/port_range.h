// PortRange: the ports at which a job may listen, where a firewall lets through no others.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(const PortRange range, ParsePortRange("20000-20099"));
//   ZS_ASSIGN_OR_RETURN(const Socket listener, ListenWithin("10.0.0.3", range));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm {

struct PortRange {
  int first = 0;
  int last = 0;  // 0: the system's choice

  bool any() const { return last == 0; }
  int size() const { return any() ? 0 : last - first + 1; }
  // The same port for the same number, spread over the range. Not for any().
  int Nth(uint64_t number) const { return first + static_cast<int>(number % static_cast<uint64_t>(size())); }
  std::string Describe() const;  // "20000-20099"
};

// "20000-20099", "20000"; empty: any. Errors: kInvalidArgument, with an example.
absl::StatusOr<PortRange> ParsePortRange(std::string_view text);

// Listens at a free port of the range, at a numeric address; does not block. Processes begin to look at different ports.
// Errors: kAlreadyExists none is free, with address and range; kUnavailable the system's words, with the address.
absl::StatusOr<Socket> ListenWithin(const std::string& address, const PortRange& range);

// The port of that number, of `range`, or where that is any, of those below what systems hand out by themselves (from 32768) and above
// well-known services': for those who cannot tell others where they listen.
int MadeUpPort(const PortRange& range, uint64_t number);

// The error of one that has tried all ports of `range` at `where` ("eth0 10.0.0.3").
absl::Status NoFreePort(std::string_view where, const PortRange& range);

}  // namespace zeroshard::comm
