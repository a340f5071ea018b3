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

#include <string>

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

  void CutLinkOf(int host) const;
  // Every link carries no more than `rate`, as tc writes it. False where this kernel cannot.
  bool Shape(const std::string& rate) const;

 private:
  std::string Name(int host) const;
  bool MakeSwitch() const;
  bool MakeHost(int host) const;

  const int hosts_;
  std::string why_not_;
  std::string ssh_;
};

}  // namespace zeroshard::integration_tests
