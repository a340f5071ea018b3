#include "zeroshard/backends/ucx/ucx_listeners.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/source_filter.h"
#include "zeroshard/comm/socket.h"

namespace zeroshard::backends {
namespace {

// How long the system keeps a connection that says nothing: longer than ranks take to connect.
constexpr int kSilentSeconds = 600;

std::mutex& SearchMutex() {
  static std::mutex mutex;
  return mutex;
}

// This process's descriptors.
std::vector<int> Descriptors() {
  std::vector<int> descriptors;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    int descriptor = -1;
    if (absl::SimpleAtoi(entry.path().filename().string(), &descriptor)) descriptors.push_back(descriptor);
  }
  return descriptors;
}

bool Listens(int descriptor) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0;
}

// Its own; of no family where it is no socket of TCP/IP.
sockaddr_storage AddressOf(int descriptor) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return address.ss_family == AF_INET || address.ss_family == AF_INET6 ? address : sockaddr_storage{};
}

// This process's TCP sockets that listen at one address, as UCX's do; sorted.
std::vector<int> Listening() {
  std::vector<int> listeners;
  for (const int descriptor : Descriptors()) {
    if (Listens(descriptor) && AddressOf(descriptor).ss_family != AF_UNSPEC) listeners.push_back(descriptor);
  }
  std::sort(listeners.begin(), listeners.end());
  return listeners;
}

bool HasSentNothing(int connection) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return length >= offsetof(tcp_info, tcpi_bytes_sent) + sizeof(info.tcpi_bytes_sent) && info.tcpi_bytes_sent == 0;
}

// Calls `then` with each connection that came to `door`: by a descriptor of our own, since UCX may close its meanwhile, and somebody else
// get the number.
void ForEachAt(const sockaddr_storage& door, absl::FunctionRef<void(int connection)> then) {
  for (const int descriptor : Descriptors()) {
    const comm::Socket same(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!same || Listens(same.get())) continue;
    const sockaddr_storage address = AddressOf(same.get());
    if (std::memcmp(&address, &door, sizeof(door)) == 0) then(same.get());
  }
}

// To UCX it looks as if the other side had gone.
void EndUnanswered(const sockaddr_storage& door) {
  ForEachAt(door, [](int connection) {
    if (HasSentNothing(connection)) shutdown(connection, SHUT_RDWR);  // UCX answers whoever says who it is.
  });
}

// Ends all that has come to `listener`, whether UCX has it already or not; what it said UCX does not read, nor what it would say.
void EndAll(int listener) {
  if ((fcntl(listener, F_GETFL) & O_NONBLOCK) != 0) {
    while (comm::Socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC))) {
    }
  }
  ForEachAt(AddressOf(listener), [](int connection) {
    AllowOnly(connection, {}).IgnoreError();
    std::array<char, 4096> said;
    while (recv(connection, said.data(), said.size(), MSG_DONTWAIT) > 0) {
    }
    shutdown(connection, SHUT_RDWR);
  });
}

// While one lives, the soft limit of descriptors is the hard one. Not for longer: select() knows no descriptor beyond the usual limit.
class DescriptorRoom {
 public:
  static std::shared_ptr<void> Take() {
    static std::mutex mutex;
    static std::weak_ptr<DescriptorRoom> shared;
    const std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<DescriptorRoom> room = shared.lock();
    if (room == nullptr) shared = room = std::make_shared<DescriptorRoom>();
    return room;
  }

  DescriptorRoom() {
    if (getrlimit(RLIMIT_NOFILE, &usual_) != 0) return;
    const rlimit all = {.rlim_cur = usual_.rlim_max, .rlim_max = usual_.rlim_max};
    raised_ = setrlimit(RLIMIT_NOFILE, &all) == 0;
  }
  ~DescriptorRoom() {
    if (raised_) setrlimit(RLIMIT_NOFILE, &usual_);
  }
  DescriptorRoom(const DescriptorRoom&) = delete;
  DescriptorRoom& operator=(const DescriptorRoom&) = delete;

 private:
  rlimit usual_ = {};
  bool raised_ = false;
};

}  // namespace

UcxListeners::Search::Search() : lock_(SearchMutex()), before_(Listening()) {}

UcxListeners::UcxListeners(const Search& search, std::span<const std::string> sources) {
  const std::vector<int> after = Listening();
  std::set_difference(after.begin(), after.end(), search.before_.begin(), search.before_.end(),
                      std::back_inserter(sockets_));
  if (sockets_.empty()) return;
  room_ = DescriptorRoom::Take();
  for (const int socket : sockets_) {
    setsockopt(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &kSilentSeconds, sizeof(kSilentSeconds));
    const absl::Status filtered = sources.empty() ? absl::OkStatus() : AllowOnly(socket, sources);
    if (absl::IsResourceExhausted(filtered)) {  // Who may set none at all reads of it once, in Stop.
      LOG(WARNING) << "UCX listens to anybody until all ranks are connected: " << filtered.message();
    }
    EndAll(socket);
  }
}

// UCX has no way to close the door.
void UcxListeners::Stop() {
  for (const int socket : sockets_) {
    const absl::Status filtered = AllowOnly(socket, {});
    if (!filtered.ok()) LOG(WARNING) << "UCX goes on listening: " << filtered.message();
    EndUnanswered(AddressOf(socket));
  }
  sockets_.clear();
  room_.reset();
}

}  // namespace zeroshard::backends
