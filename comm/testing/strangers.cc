#include "zeroshard/comm/testing/strangers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::comm::testing {
namespace {

constexpr size_t kMostOpen = 300;

// The inodes of a process's sockets.
std::set<std::string> SocketsOf(pid_t process) {
  std::set<std::string> inodes;
  std::error_code error;
  std::filesystem::directory_iterator folder(absl::StrCat("/proc/", process, "/fd"), error);
  for (; !error && folder != std::filesystem::directory_iterator(); folder.increment(error)) {
    const std::string to = std::filesystem::read_symlink(folder->path(), error).string();
    if (to.rfind("socket:[", 0) == 0) inodes.insert(to.substr(8, to.size() - 9));
  }
  return inodes;
}

// "0100007F:1F90" as /proc/net/tcp and tcp6 write it: words of the host's order.
ListeningPort Parse(const std::string& text) {
  const size_t colon = text.find(':');
  unsigned char bytes[16] = {};
  for (size_t word = 0; word * 8 < colon; ++word) {
    const auto value = static_cast<uint32_t>(std::stoul(text.substr(word * 8, 8), nullptr, 16));
    std::memcpy(bytes + word * 4, &value, sizeof(value));
  }
  char address[INET6_ADDRSTRLEN] = {};
  inet_ntop(colon == 8 ? AF_INET : AF_INET6, bytes, address, sizeof(address));
  return {address, std::stoi(text.substr(colon + 1), nullptr, 16)};
}

const std::vector<std::string>& Words() {
  // Of UCX 1.13's TCP transport, in memory's order.
  const uint64_t magic = 0xCAFEBABE12345678;
  const std::string ucx(reinterpret_cast<const char*>(&magic), sizeof(magic));
  static const auto* const words = new std::vector<std::string>{
      "",
      "x",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      std::string(1 << 16, '\xff'),
      std::string(4096, '\0'),
      ucx.substr(0, 3),
      ucx,
      "zsline\n\2",
  };
  return *words;
}

}  // namespace

bool MayDropConnections() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sock_filter nothing = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program = {.len = 1, .filter = &nothing};
  return setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

std::set<ListeningPort> ListeningPorts(pid_t process) {
  std::set<ListeningPort> ports;
  const std::set<std::string> sockets = SocketsOf(process);
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(absl::StrCat("/proc/", process, "/net/", table));
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skipped, inode;
      fields >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) fields >> skipped;
      fields >> inode;
      if (state == "0A" && sockets.count(inode) > 0) ports.insert(Parse(local));
    }
  }
  return ports;
}

Strangers::~Strangers() {
  for (const int stranger : open_) close(stranger);
}

bool Strangers::Visit(const ListeningPort& port, int patience_ms) {
  sockaddr_storage there;
  const socklen_t length = MakeSocketAddress(port.first, port.second, there);
  const int stranger = socket(there.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (stranger < 0) return false;
  const int64_t visit = visits_++;
  connect(stranger, reinterpret_cast<sockaddr*>(&there), length);
  pollfd entry = {.fd = stranger, .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t error_length = sizeof(error);
  const bool answered = poll(&entry, 1, patience_ms) == 1 &&
                        getsockopt(stranger, SOL_SOCKET, SO_ERROR, &error, &error_length) == 0 && error == 0;
  if (answered) {
    ++answered_;
    const std::string& words = Words()[static_cast<size_t>(visit) % Words().size()];
    static_cast<void>(!send(stranger, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    if (visit % 7 == 0) shutdown(stranger, SHUT_WR);
  }
  if (open_.size() == kMostOpen) {
    for (const int old : open_) close(old);
    open_.clear();
  }
  open_.push_back(stranger);
  return answered;
}

StrangersEverywhere::~StrangersEverywhere() {
  over_ = true;
  thread_.join();
}

void StrangersEverywhere::Follow(const std::vector<pid_t>& processes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  processes_ = processes;
}

void StrangersEverywhere::Run() {
  while (!over_ && strangers_.visits() < most_) {
    std::vector<pid_t> processes;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      processes = processes_;
    }
    std::set<ListeningPort> ports;
    for (const pid_t process : processes) ports.merge(ListeningPorts(process));
    for (const ListeningPort& port : ports) {
      for (int i = 0; i < 40 && !over_; ++i) strangers_.Visit(port);
    }
    usleep(1000);
  }
}

}  // namespace zeroshard::comm::testing
