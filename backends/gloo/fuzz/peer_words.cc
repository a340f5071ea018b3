// What peers say before and beside the data: greetings of connections, endpoints in the store, and words on their lines.
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "zeroshard/backends/gloo/endpoint.h"
#include "zeroshard/backends/gloo/greeting.h"
#include "zeroshard/backends/gloo/peer_lines.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::backends {
namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

void Greet(const std::string& bytes) {
  Greeting greeting = {};
  std::memcpy(&greeting, bytes.data(), std::min(bytes.size(), sizeof(greeting)));
  const auto greeter = CheckGreeting(greeting, 4, kToken);
  if (greeter.has_value()) CHECK(greeter->rank >= 0 && greeter->rank < 4 && greeter->world_size == 4);
}

void ReadEndpoint(const std::string& bytes) {
  const auto endpoint = ParseEndpoint(1, bytes);
  if (!endpoint.ok()) return;
  const auto again = ParseEndpoint(1, FormatEndpoint(*endpoint));
  CHECK(again.ok() && again->address == endpoint->address && again->port == endpoint->port &&
        again->token == endpoint->token);
}

// All that comes on a line, in pieces, and its end.
void HearLine(const std::string& bytes) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Socket peer(ends[0]);
  std::vector<Socket> lines(2);
  lines[1] = Socket(ends[1]);
  std::promise<absl::Status> heard;
  {
    PeerLines ours({.rank = 0, .world_size = 2}, std::move(lines),
                   [&](int, const absl::Status& said) { heard.set_value(said); });
    const size_t half = bytes.size() / 2;
    (void)send(peer.get(), bytes.data(), half, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)send(peer.get(), bytes.data() + half, bytes.size() - half, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(peer.get(), SHUT_WR);
    const absl::Status why = heard.get_future().get();
    CHECK(why.ok() == (ours.state(1) == PeerLines::State::kLeft));
    (void)ours.WhyLate(1);
    (void)ours.LastOf(1);
  }
}

// As it is on the wire; see peer_lines.h.
struct Word {
  char magic[8] = {'z', 's', 'l', 'i', 'n', 'e', '\n', 3};
  uint32_t word = 1;
  int32_t code = 0;
  uint32_t text_bytes = 0;
  char text[492] = {};
};

}  // namespace
}  // namespace zeroshard::backends

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  return zeroshard::fuzz::FeedOneOf({&Greet, &ReadEndpoint, &HearLine}, data, size);
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  std::vector<std::string> seeds = {
      '\0' + BytesOf(MakeGreeting({.rank = 2, .world_size = 4, .kind = ConnectionKind::kLine}, kToken)),
      '\1' + FormatEndpoint({.address = "10.0.0.3", .port = 4711, .token = kToken}),
      '\1' + FormatEndpoint({.address = "fd00::3", .port = 65535, .token = kToken})};
  for (const uint32_t word : {1u, 2u, 3u, 4u}) {
    Word said;
    said.word = word;
    said.code = word == 4 ? 1 : 9;
    said.text_bytes = 12;
    std::memcpy(said.text, "out of paper", 12);
    seeds.push_back('\2' + BytesOf(said));
    seeds.push_back('\2' + BytesOf(said) + BytesOf(Word()));
  }
  Word doing;
  doing.word = 5;
  zeroshard::comm::Operation operation;
  operation.sequence = 7;
  const std::string header = BytesOf(zeroshard::comm::MakeHeader(operation, 1, 2));
  std::memcpy(doing.text, header.data(), header.size());
  seeds.push_back('\2' + BytesOf(doing) + BytesOf(Word()));
  seeds.push_back('\2' + BytesOf(doing));
  return seeds;
}
