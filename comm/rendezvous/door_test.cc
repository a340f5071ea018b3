#include "zeroshard/comm/rendezvous/door.h"

#include <sys/socket.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/rendezvous/connect.h"
#include "zeroshard/comm/rendezvous/service_address.h"

namespace zeroshard::comm {
namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class DoorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listeners = ListenAt({.host = "127.0.0.1", .port = 0}, {.single_host = true});
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    address_ = {.host = "127.0.0.1", .port = BoundPort((*listeners)[0].get())};
    door_ = std::make_unique<Door>(*std::move(listeners), kToken, /*most_admitted=*/3, [this](Socket rank) {
      const std::lock_guard<std::mutex> lock(mutex_);
      admitted_.push_back(std::move(rank));
    });
  }

  Socket Stranger() const {
    Socket stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage there;
    const socklen_t length = MakeSocketAddress(address_.host, address_.port, there);
    if (connect(stranger.get(), reinterpret_cast<sockaddr*>(&there), length) != 0) return Socket();
    return stranger;
  }

  absl::StatusCode Enter(const std::string& token) {
    auto socket = ConnectToRendezvous(address_, token, absl::Now() + absl::Seconds(10));
    const absl::StatusCode code = socket.status().code();
    if (socket.ok()) entered_.push_back(*std::move(socket));
    return code;
  }

  size_t admitted() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return admitted_.size();
  }

  ServiceAddress address_;
  std::mutex mutex_;
  std::vector<Socket> admitted_;
  std::vector<Socket> entered_;
  std::unique_ptr<Door> door_;
};

TEST_F(DoorTest, LetsInWhoKnowsTheTokenAndNoMoreThanThereAre) {
  for (const std::string& wrong : {std::string("0123456789abcdef0123456789abcdee"), std::string("short-but-printable"),
                                   std::string(kToken) + "0", std::string(kMostTokenBytes, 'x')}) {
    EXPECT_EQ(Enter(wrong), absl::StatusCode::kUnauthenticated) << wrong;
  }
  EXPECT_EQ(admitted(), 0U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Enter(kToken), absl::StatusCode::kOk);
  for (int i = 0; i < 100 && admitted() < 3; ++i) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(admitted(), 3U);
  EXPECT_NE(Enter(kToken), absl::StatusCode::kOk);
}

TEST_F(DoorTest, IsNotHeldByStrangers) {
  const std::vector<std::string> words = {
      "",
      "GET / HTTP/1.1\r\n\r\n",
      std::string(1 << 16, '\xff'),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      std::string(kRendezvousMagic, sizeof(kRendezvousMagic)),
      std::string(kRendezvousMagic, sizeof(kRendezvousMagic)) + std::string(400, '\xff')};
  std::vector<Socket> strangers;
  for (size_t i = 0; i < 10000; ++i) {
    Socket stranger = Stranger();
    if (!stranger) continue;
    const std::string& said = words[i % words.size()];
    (void)!send(stranger.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (i % 7 == 0) shutdown(stranger.get(), SHUT_WR);
    if (strangers.size() == 300) strangers.clear();
    strangers.push_back(std::move(stranger));
    // A rank comes in the thick of it; a second try is what ranks make, too.
    if (i % 4000 == 2000) {
      EXPECT_TRUE(Enter(kToken) == absl::StatusCode::kOk || Enter(kToken) == absl::StatusCode::kOk) << i;
    }
  }
  EXPECT_EQ(entered_.size(), 2U);
}

TEST_F(DoorTest, GarbageIsTurnedAwayBeforeItIsWhole) {
  const Socket stranger = Stranger();
  ASSERT_TRUE(stranger);
  ASSERT_EQ(send(stranger.get(), "SSH-2.0", 7, MSG_NOSIGNAL), 7);
  char answer = 0;
  EXPECT_EQ(recv(stranger.get(), &answer, 1, 0), 1);
  EXPECT_EQ(answer, kRendezvousRefusal);
  EXPECT_EQ(recv(stranger.get(), &answer, 1, 0), 0);
}

}  // namespace
}  // namespace zeroshard::comm
