// Several hosts on one machine: network namespaces, each with an eth0 on a common switch, and with what real hosts have besides: a
// docker0 of the same address everywhere, a stray veth, a name of its own that resolves to 127.0.1.1 there.
//
// Host i has 10.77.0.i and fd77::i, and the name "node<i>", which the others resolve to 10.77.0.i. Made by root; gone with the object.
//
// Example:
//   const Network network(2);
//   if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
//   RunTool("tools/train", {"--hosts=node1,node2", "--ssh=" + network.Ssh()});
#pragma once

#include <cstdint>
#include <string>

#include "zeroshard/comm/socket.h"

namespace zeroshard::integration_tests {

class Network {
 public:
  explicit Network(int hosts);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Why it is not there; empty: it is.
  const std::string& why_not() const { return why_not_; }
  // A script that takes what ssh takes, and runs the command on the host whose name or address ends with its number.
  const std::string& Ssh() const { return ssh_; }

  // What comes before a command that is to run on that host.
  std::string On(int host) const;

  void CutLinkOf(int host) const;
  // The two hosts, and no others, do not hear each other any more.
  void CutLinkBetween(int host, int other) const;
  // The host has IPv6 alone on eth0.
  void TakeIpv4From(int host) const;
  // Somebody of that host listens at its eth0's IPv4 address, for as long as the socket lives.
  comm::Socket Listen(int host, int port) const;
  // Bytes that the host's eth0 has sent so far, with all that frames them; -1: it does not say.
  int64_t SentBy(int host) const;
  // Every link carries no more than `rate`, as tc writes it. False where this kernel cannot.
  bool Shape(const std::string& rate) const;

 private:
  std::string Name(int host) const;
  bool MakeSwitch() const;
  bool MakeHost(int host) const;
  bool AwaitLinkOf(int host) const;

  const int hosts_;
  std::string why_not_;
  std::string ssh_;
};

}  // namespace zeroshard::integration_tests
