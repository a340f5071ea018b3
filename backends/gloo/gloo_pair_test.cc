#include "zeroshard/backends/gloo/gloo_pair.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/backends/gloo/gloo_errors.h"

namespace zeroshard::backends {
namespace {

namespace tcp = ::gloo::transport::tcp;
using ::testing::HasSubstr;

// What Gloo writes before each message.
struct Preamble {
  uint64_t nbytes = sizeof(Preamble);
  uint64_t opcode = 0;
  uint64_t slot = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t roffset = 0;
};

// A pair whose peer is this test, which writes what it likes.
class HostilePeer : public ::testing::Test, private GlooPair::Observer {
 protected:
  void SetUp() override {
    tcp::attr attributes("127.0.0.1");
    context_ = std::make_shared<GlooContext>(std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(attributes)), 0, 2);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_storage address = {};
    address.ss_family = AF_INET;
    socklen_t length = sizeof(sockaddr_in);
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    peer_ = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(peer_, reinterpret_cast<sockaddr*>(&address), length), 0);
    context_->Adopt(1, accept(listener, nullptr, nullptr), *this);
    close(listener);
    buffer_ = context_->createUnboundBuffer(nullptr, std::numeric_limits<size_t>::max());
  }
  void TearDown() override {
    context_->pair(1).close();  // Its thread is done with the buffer.
    buffer_.reset();
    close(peer_);
  }

  void Write(const void* bytes, size_t count) { send(peer_, bytes, count, MSG_NOSIGNAL); }
  void Write(const Preamble& preamble) { Write(&preamble, sizeof(preamble)); }

  // A receive of 16 bytes ends, and not well.
  std::string ReceiveFails() {
    bool ended = false;
    const absl::Status status = CallGloo([&] {
      context_->pair(1).lengths(0, Direction::kReceive).Expect(16);
      buffer_->recv(1, 0, reinterpret_cast<size_t>(memory_), 16);
      ended = buffer_->waitRecv(std::chrono::seconds(5));
    });
    EXPECT_FALSE(ended);
    return std::string(status.message());
  }

  std::shared_ptr<GlooContext> context_;
  std::unique_ptr<::gloo::transport::UnboundBuffer> buffer_;
  int peer_ = -1;
  char memory_[16] = {};

 private:
  void LengthDiffers(int, int, Direction, uint64_t, int64_t) override { buffer_->abortWaitRecv(); }
};

TEST_F(HostilePeer, BytesThatAreNoMessageEndThePair) {
  const std::string words = "GET / HTTP/1.1\r\nHost: here\r\nAccept: everything there is\r\n\r\n";
  Write(words.data(), words.size());
  EXPECT_THAT(ReceiveFails(), HasSubstr("bytes that are no message"));
}

TEST_F(HostilePeer, AMessageThatNobodyAskedForEndsThePair) {
  Write({.nbytes = sizeof(Preamble) + 8, .opcode = tcp::Op::SEND_UNBOUND_BUFFER, .slot = 1, .length = 8});
  EXPECT_THAT(ReceiveFails(), HasSubstr("that no receive asked for"));
}

TEST_F(HostilePeer, ALongerMessageThanTheReceiveEndsThePair) {
  bool ended = false;
  const absl::Status status = CallGloo([&] {
    buffer_->recv(1, 0, reinterpret_cast<size_t>(memory_), 16);
    Write({.nbytes = sizeof(Preamble) + (1 << 20), .opcode = tcp::Op::SEND_UNBOUND_BUFFER, .length = 1 << 20});
    ended = buffer_->waitRecv(std::chrono::seconds(5));
  });
  EXPECT_FALSE(ended);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a message of 1048576 bytes for a receive of 16"));
}

TEST_F(HostilePeer, LengthsThatOverflowEndThePair) {
  bool ended = false;
  const absl::Status status = CallGloo([&] {
    buffer_->recv(1, 0, reinterpret_cast<size_t>(memory_), 16);
    Write({.nbytes = 64, .opcode = tcp::Op::SEND_UNBOUND_BUFFER, .length = std::numeric_limits<uint64_t>::max() - 7});
    ended = buffer_->waitRecv(std::chrono::seconds(5));
  });
  EXPECT_FALSE(ended);
  EXPECT_FALSE(status.ok());
}

TEST_F(HostilePeer, ABoundBuffersMessageEndsThePair) {
  Write({.nbytes = sizeof(Preamble) + 8, .opcode = tcp::Op::SEND_BUFFER, .length = 8, .roffset = 1ull << 60});
  EXPECT_THAT(ReceiveFails(), HasSubstr("bytes that are no message"));
}

TEST_F(HostilePeer, AnnouncementsWithoutEndEndThePair) {
  for (int i = 0; i < 1000; ++i) Write({.opcode = tcp::Op::NOTIFY_SEND_READY, .length = 16});
  // The first sixteen bytes were announced: only the flood is wrong.
  EXPECT_THAT(ReceiveFails(), HasSubstr("more messages announced"));
}

TEST_F(HostilePeer, AClosedConnectionEndsThePair) {
  shutdown(peer_, SHUT_RDWR);
  EXPECT_THAT(ReceiveFails(), HasSubstr("Connection closed by peer"));
}

TEST_F(HostilePeer, AMessageInSmallPiecesArrivesWhole) {
  bool ended = false;
  const absl::Status status = CallGloo([&] {
    buffer_->recv(1, 0, reinterpret_cast<size_t>(memory_), 16);
    const Preamble preamble = {.nbytes = sizeof(Preamble) + 16, .opcode = tcp::Op::SEND_UNBOUND_BUFFER, .length = 16};
    std::string bytes(reinterpret_cast<const char*>(&preamble), sizeof(preamble));
    bytes += "0123456789abcdef";
    for (const char byte : bytes) {
      Write(&byte, 1);
      usleep(200);
    }
    ended = buffer_->waitRecv(std::chrono::seconds(5));
  });
  EXPECT_TRUE(ended) << status;
  EXPECT_EQ(std::string(memory_, 16), "0123456789abcdef");
}

TEST_F(HostilePeer, RandomBytesAndPreamblesEndNoProcess) {
  std::mt19937_64 random(11);
  for (int repeat = 0; repeat < 60; ++repeat) {
    if (repeat > 0) {
      TearDown();
      context_.reset();
      SetUp();
    }
    for (int i = 0; i < 20; ++i) {
      Preamble preamble;
      auto* const words = reinterpret_cast<uint64_t*>(&preamble);
      for (int w = 0; w < 6; ++w) words[w] = random() % 4 == 0 ? random() : random() % 5;
      if (random() % 2 == 0) preamble.nbytes = sizeof(Preamble) + preamble.length;
      Write(preamble);
    }
    shutdown(peer_, SHUT_WR);
    ReceiveFails();
  }
}

}  // namespace
}  // namespace zeroshard::backends
