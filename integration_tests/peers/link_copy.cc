// The floor under a collective over TCP: two processes that do nothing but send each other bytes, both ways at once, over one
// connection. Prints the microseconds of one exchange of BYTES each way.
//
// Example: link_copy listen 10.77.0.1 5001 33554432 & link_copy connect 10.77.0.1 5001 33554432
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kCalls = 5;
constexpr int64_t kPiece = int64_t{256} << 10;

int Connected(bool listens, const sockaddr_in& address) {
  const auto* const bare = reinterpret_cast<const sockaddr*>(&address);
  const int on = 1;
  for (int tries = 0; tries < 500; ++tries) {
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (listens && bind(made, bare, sizeof(address)) == 0 && listen(made, 1) == 0) return accept(made, nullptr, nullptr);
    if (!listens && connect(made, bare, sizeof(address)) == 0) return made;
    close(made);
    usleep(10'000);
  }
  return -1;
}

void Move(int64_t bytes, char* buffer, ssize_t (*move)(int, char*, size_t), int socket) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t moved =
        move(socket, buffer + done % kPiece, static_cast<size_t>(std::min(kPiece - done % kPiece, bytes - done)));
    if (moved <= 0) std::exit(4);
    done += moved;
  }
}

void Exchange(int socket, int64_t bytes, std::vector<char>& out, std::vector<char>& in) {
  std::thread sends([&] {
    Move(
        bytes, out.data(), [](int to, char* data, size_t size) { return send(to, data, size, MSG_NOSIGNAL); }, socket);
  });
  Move(
      bytes, in.data(), [](int from, char* data, size_t size) { return recv(from, data, size, 0); }, socket);
  sends.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[3])));
  inet_pton(AF_INET, argv[2], &address.sin_addr);
  const int socket = Connected(std::string(argv[1]) == "listen", address);
  if (socket < 0) return 4;
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int64_t bytes = std::atoll(argv[4]);
  std::vector<char> out(static_cast<size_t>(kPiece), 'x'), in(static_cast<size_t>(kPiece));
  std::vector<double> us;
  for (int call = 0; call <= kCalls; ++call) {
    const auto begin = std::chrono::steady_clock::now();
    Exchange(socket, bytes, out, in);
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(us.begin() + 1, us.end());  // The first warms up.
  std::printf("%.2f\n", us[1 + kCalls / 2]);
  return 0;
}
