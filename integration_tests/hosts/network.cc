#include "zeroshard/integration_tests/hosts/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zeroshard::integration_tests {
namespace {

bool Run(const std::string& command) {
  return std::system(absl::StrCat("PATH=/usr/sbin:/sbin:/usr/bin:/bin; ", command, " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

std::string Network::Name(int host) const { return absl::StrCat("zs", getpid(), "-", host); }

Network::Network(int hosts) : hosts_(hosts) {
  if (geteuid() != 0) why_not_ = "network namespaces are made by root, and this test does not run as root";
  if (why_not_.empty() && !Run("ip -V")) why_not_ = "there is no ip (iproute2) on this machine";
  if (!why_not_.empty()) return;
  bool made = MakeSwitch();
  for (int host = 1; host <= hosts_; ++host) made = made && MakeHost(host);
  for (int host = 1; host <= hosts_; ++host) made = made && AwaitLinkOf(host);
  if (!made) why_not_ = "this machine does not let the test make network namespaces with veth pairs";
  ssh_ = absl::StrCat("/tmp/", Name(0), ".ssh");
  // Run as: ssh OPTIONS -- HOST COMMAND, or as: ssh HOST COMMAND WORDS
  std::ofstream(ssh_) << "#!/bin/sh\n"
                         "while :; do case \"$1\" in -o) shift 2;; --) shift; break;; -*) shift;; *) break;; esac; done\n"
                         "host=${1##*[!0-9]}; shift\n"
                         "exec /sbin/ip netns exec zs"
                      << getpid() << "-$host sh -c \"$*\"\n";
  chmod(ssh_.c_str(), 0700);
}

// Namespace 0 is the switch.
bool Network::MakeSwitch() const {
  const std::string name = Name(0);
  return Run(absl::StrCat("ip netns add ", name, " && ip -n ", name, " link add br0 type bridge && ip -n ", name,
                          " link set br0 up"));
}

bool Network::MakeHost(int host) const {
  const std::string name = Name(host), ip = absl::StrCat("ip -n ", name, " ");
  const std::string files = absl::StrCat("/etc/netns/", name);
  std::filesystem::create_directories(files);
  std::ofstream hosts_file(files + "/hosts");
  hosts_file << "127.0.0.1 localhost\n";
  for (int other = 1; other <= hosts_; ++other) {
    hosts_file << (other == host ? "127.0.1.1" : absl::StrCat("10.77.0.", other)) << " node" << other << "\n";
  }
  hosts_file.close();
  return Run(absl::StrCat("ip netns add ", name)) &&
         // docker0 comes first, with an address that every host has.
         Run(ip + "link add docker0 type bridge && " + ip + "addr add 172.17.0.1/16 dev docker0 && " + ip +
             "link set docker0 up") &&
         Run(ip + "link add veth9 type veth peer name veth8 && " + ip + "addr add 10.9.0.1/24 dev veth9 && " + ip +
             "link set veth9 up") &&
         Run(absl::StrCat("ip link add eth0 netns ", name, " type veth peer name port", host, " netns ", Name(0))) &&
         Run(absl::StrCat("ip -n ", Name(0), " link set port", host, " master br0 up")) &&
         Run(absl::StrCat(ip, "addr add 10.77.0.", host, "/24 dev eth0 && ", ip, "addr add fd77::", host,
                          "/64 dev eth0 nodad && ", ip, "link set eth0 up && ", ip, "link set lo up"));
}

// The kernel says up to a second after a link came up that it runs, and UCX takes no interface before. A real host's has long been up.
bool Network::AwaitLinkOf(int host) const {
  const std::string runs = absl::StrCat("ip -n ", Name(host), " link show dev eth0 | grep -q 'state UP'");
  for (int tries = 0; tries < 100; ++tries) {
    if (Run(runs)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

std::string Network::On(int host) const { return absl::StrCat("/sbin/ip netns exec ", Name(host)); }

void Network::CutLinkOf(int host) const { Run(absl::StrCat("ip -n ", Name(0), " link set port", host, " down")); }

void Network::CutLinkBetween(int host, int other) const {
  for (const int cut : {host, other}) {
    Run(absl::StrCat("ip -n ", Name(0), " link set port", cut, " type bridge_slave isolated on"));
  }
}

void Network::TakeIpv4From(int host) const {
  Run(absl::StrCat("ip -n ", Name(host), " addr del 10.77.0.", host, "/24 dev eth0"));
}

comm::Socket Network::Listen(int host, int port) const {
  comm::Socket listener;
  std::thread([&] {  // A thread is in a namespace of its own, a socket stays in the one where it was made.
    const comm::Socket there(open(absl::StrCat("/run/netns/", Name(host)).c_str(), O_RDONLY | O_CLOEXEC));
    if (!there || setns(there.get(), CLONE_NEWNET) != 0) return;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, absl::StrCat("10.77.0.", host).c_str(), &address.sin_addr);
    comm::Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!made || bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return;
    if (listen(made.get(), 1) == 0) listener = std::move(made);
  })
      .join();
  return listener;
}

int64_t Network::SentBy(int host) const {
  FILE* const count = popen(absl::StrCat(On(host), " cat /sys/class/net/eth0/statistics/tx_bytes").c_str(), "r");
  long long bytes = -1;  // NOLINT(google-runtime-int): as fscanf wants it
  if (count != nullptr && fscanf(count, "%lld", &bytes) != 1) bytes = -1;
  if (count != nullptr) pclose(count);
  return bytes;
}

bool Network::Shape(const std::string& rate) const {
  bool shaped = true;
  for (int host = 1; host <= hosts_; ++host) {
    shaped = shaped && Run(absl::StrCat("tc -n ", Name(host), " qdisc replace dev eth0 root tbf rate ", rate,
                                        " burst 256kb latency 50ms"));
  }
  return shaped;
}

Network::~Network() {
  std::error_code ignored;
  for (int host = 0; host <= hosts_; ++host) {
    Run(absl::StrCat("ip netns del ", Name(host)));
    std::filesystem::remove_all(absl::StrCat("/etc/netns/", Name(host)), ignored);
  }
  if (!ssh_.empty()) std::filesystem::remove(ssh_, ignored);
}

}  // namespace zeroshard::integration_tests
