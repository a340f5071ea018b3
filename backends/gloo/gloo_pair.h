// GlooPair: Gloo's connection to one peer, made safe.
//
// Gloo's own pair takes the first connection that comes to its port, ends the process from its I/O thread where a peer's bytes
// are not what it expects, and never looks at lengths. This one is handed a connected socket whose other end has proved who it is
// (peer_connections.h), checks every preamble before Gloo acts on it, reads and writes the socket itself (never raising SIGPIPE,
// never so long in one direction that the other starves), and turns every exception on the I/O thread into the end of this pair.
//
// Example:
//   auto context = std::make_shared<GlooContext>(device, rank, world_size);
//   ZS_RETURN_IF_ERROR(CallGloo([&] { context->Adopt(peer, socket, observer); }));
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "gloo/transport/tcp/context.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/tcp/pair.h"
#include "zeroshard/backends/gloo/message_lengths.h"

namespace zeroshard::backends {

// Streams of messages to and from one peer; each is one of Gloo's slots.
inline constexpr int kGlooSlots = 2;

// Of a transfer, as this rank sees it.
enum class Direction : uint8_t { kSend, kReceive };

class GlooPair final : public ::gloo::transport::tcp::Pair {
 public:
  // Told, on the I/O thread, that the peer gives another length for transfer `index` of `slot`. Must not call the pair.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void LengthDiffers(int peer, int slot, Direction direction, uint64_t index, int64_t peers_bytes) = 0;
  };

  // Throws Gloo's exceptions, as Adopt does.
  GlooPair(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device, int peer);

  // Takes the connected socket over and starts to listen to it; it is closed by this pair, whatever happens. `observer` outlives it.
  void Adopt(int socket, Observer& observer);

  // The lengths on `slot`, as the two ends see them: transfers are told here before they are posted.
  MessageLengths& lengths(int slot, Direction direction) { return lengths_[slot][static_cast<int>(direction)]; }
  // How many messages of `slot` have been handed to the system, or have come, in full: those of the first transfers.
  uint64_t ended(int slot, Direction direction) const {
    return ended_[slot][static_cast<int>(direction)].load(std::memory_order_acquire);
  }
  // Whether it is still connected: no transfer ends any more where it is not.
  bool connected();
  // Whether all that was handed to the system has reached the peer's.
  bool Flushed();
  // Ends every transfer of this pair with these words; afterwards no byte is read or written. Idempotent.
  void Shut(const std::string& why);

 private:
  using Base = ::gloo::transport::tcp::Pair;
  using Op = ::gloo::transport::tcp::Op;

  void handleEvents(int events) override;
  bool read() override;
  bool write(Op& op) override;

  // Whether Gloo may act on the preamble in rx_; where not, the pair has ended.
  bool CheckPreamble();
  bool CheckPayload();
  void CountEnded(size_t slot, Direction direction) {
    ended_[slot][static_cast<int>(direction)].fetch_add(1, std::memory_order_release);
  }
  bool CheckAnnouncement();

  const int peer_rank_;
  Observer* observer_ = nullptr;
  MessageLengths lengths_[kGlooSlots][2];
  std::atomic<uint64_t> ended_[kGlooSlots][2] = {};
};

// A Gloo context whose pairs are GlooPairs.
class GlooContext final : public ::gloo::transport::tcp::Context {
 public:
  GlooContext(std::shared_ptr<::gloo::transport::tcp::Device> device, int own_rank, int world_size);

  // Makes the pair to `peer` over a connected socket; closes the socket where it throws.
  void Adopt(int peer, int socket, GlooPair::Observer& observer);
  GlooPair& pair(int peer) { return *static_cast<GlooPair*>(getPair(peer).get()); }

  std::unique_ptr<::gloo::transport::Pair>& createPair(int peer) override;
};

}  // namespace zeroshard::backends
