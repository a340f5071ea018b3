// What a peer sends on the connection of the data: Gloo's preambles and what they announce. Two receives of 16 bytes wait for it.
#include "zeroshard/backends/gloo/gloo_pair.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/backends/gloo/gloo_errors.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::backends {
namespace {

namespace tcp = ::gloo::transport::tcp;

constexpr size_t kBytes = 16;

// What Gloo writes before each message.
struct Preamble {
  uint64_t nbytes = sizeof(Preamble);
  uint64_t opcode = 0;
  uint64_t slot = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t roffset = 0;
};

class Nobody final : public GlooPair::Observer {
 public:
  void LengthDiffers(int, int, Direction, uint64_t, int64_t) override {}
};

const std::shared_ptr<tcp::Device>& Device() {
  static const auto& device = *new std::shared_ptr<tcp::Device>([] {
    tcp::attr attributes("127.0.0.1");
    return std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(attributes));
  }());
  return device;
}

// Two ends of a connection over loopback: Gloo asks a socket for its addresses.
void Connect(int (&ends)[2]) {
  sockaddr_storage address = {};
  address.ss_family = AF_INET;
  socklen_t length = sizeof(sockaddr_in);
  auto* const bare = reinterpret_cast<sockaddr*>(&address);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(bind(listener, bare, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, bare, &length) == 0);
  ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_EQ(connect(ends[0], bare, length), 0);
  ends[1] = accept(listener, nullptr, nullptr);
  close(listener);
  // Ended at once, without the minute in which the system remembers it.
  const linger none = {.l_onoff = 1, .l_linger = 0};
  setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

void Hear(const std::string& bytes) {
  int ends[2];
  Connect(ends);
  Nobody nobody;
  std::vector<char> memory(2 * kBytes);
  auto context = std::make_shared<GlooContext>(Device(), 0, 2);
  const absl::Status ended = CallGloo([&] {
    context->Adopt(1, ends[1], nobody);
    auto buffer = context->createUnboundBuffer(memory.data(), memory.size());
    for (int slot = 0; slot < kGlooSlots; ++slot) {
      context->pair(1).lengths(slot, Direction::kReceive).Expect(kBytes);
      buffer->recv(1, static_cast<uint64_t>(slot), static_cast<size_t>(slot) * kBytes, kBytes);
    }
    (void)send(ends[0], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(ends[0], SHUT_WR);
    while (context->pair(1).connected()) std::this_thread::yield();
  });
  close(ends[0]);
  (void)ended;
}

}  // namespace
}  // namespace zeroshard::backends

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  zeroshard::backends::Hear(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  using Op = tcp::Op;
  const auto message = [](uint64_t slot) {
    return BytesOf(Preamble{
               .nbytes = sizeof(Preamble) + kBytes, .opcode = Op::SEND_UNBOUND_BUFFER, .slot = slot, .length = kBytes}) +
           std::string(kBytes, 'm');
  };
  const auto word = [](uint64_t opcode, uint64_t length) { return BytesOf(Preamble{.opcode = opcode, .length = length}); };
  return {message(0), message(0) + message(1), word(Op::NOTIFY_SEND_READY, kBytes) + message(0),
          word(Op::NOTIFY_SEND_READY, kBytes - 1), word(Op::NOTIFY_RECV_READY, kBytes)};
}
