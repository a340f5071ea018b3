#include "zeroshard/backends/gloo/gloo_pair.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/backends/gloo/gloo_errors.h"

namespace zeroshard::backends {
namespace {

namespace tcp = ::gloo::transport::tcp;

// What one turn of the I/O thread reads from one pair, or writes to it, before the other direction and the other pairs have theirs.
constexpr ssize_t kTurnBytes = 1 << 20;

// Gloo's pairs time their own calls out only where a pair is synchronous, which none is here.
constexpr std::chrono::milliseconds kPairTimeout = std::chrono::hours(24);

}  // namespace

GlooPair::GlooPair(tcp::Context* context, tcp::Device* device, int peer)
    : Base(context, device, peer, kPairTimeout), peer_rank_(peer) {}

void GlooPair::Adopt(int socket, Observer& observer) {
  const std::lock_guard<std::mutex> lock(m_);
  observer_ = &observer;
  // The base class listens from its constructor on; nobody was told where. Closing takes it off the I/O thread's list too.
  if (fd_ >= 0) ::close(fd_);
  fd_ = socket;
  // Leaves the size of the send buffer to the system, which tunes it; Gloo would pin it.
  sendBufferSize_ = std::numeric_limits<size_t>::max();
  handleConnected();
}

bool GlooPair::connected() {
  const std::lock_guard<std::mutex> lock(m_);
  return state_ == CONNECTED;
}

bool GlooPair::Flushed() {
  const std::lock_guard<std::mutex> lock(m_);
  int unsent_bytes = 0;
  return state_ != CONNECTED || (tx_.empty() && (ioctl(fd_, SIOCOUTQ, &unsent_bytes) != 0 || unsent_bytes == 0));
}

void GlooPair::Shut(const std::string& why) {
  const std::lock_guard<std::mutex> lock(m_);
  if (state_ == CLOSED) return;
  // Gloo now waits for a turn of the I/O thread, which sleeps for up to 10 ms: this wakes it.
  shutdown(fd_, SHUT_RDWR);
  signalException(why);
}

void GlooPair::handleEvents(int events) {
  // Where the communicator's thread is at this pair, Gloo comes back at once, and again: let that thread run.
  if (std::unique_lock<std::mutex> lock(m_, std::try_to_lock); !lock) {
    std::this_thread::yield();
    return;
  }
  const absl::Status status = CallGloo([&] { Base::handleEvents(events); });
  if (status.ok()) return;
  const absl::Status shut = CallGloo([&] { Shut(std::string(status.message())); });
  if (!shut.ok()) LOG(ERROR) << "connection to rank " << peer_rank_ << ": " << status << ", then " << shut;
}

bool GlooPair::CheckPayload() {
  const auto receives = localPendingRecv_.find(rx_.preamble.slot);
  if (receives == localPendingRecv_.end() || receives->second.empty()) {
    signalException(absl::StrCat("a message of ", rx_.preamble.length, " bytes that no receive asked for"));
    return false;
  }
  const size_t asked_bytes = std::get<2>(receives->second.front());
  if (asked_bytes != rx_.preamble.length || rx_.preamble.nbytes != sizeof(rx_.preamble) + rx_.preamble.length) {
    signalException(absl::StrCat("a message of ", rx_.preamble.length, " bytes for a receive of ", asked_bytes));
    return false;
  }
  return true;
}

bool GlooPair::CheckPreamble() {
  const auto& preamble = rx_.preamble;
  const size_t opcode = preamble.opcode;
  const bool known = opcode == Op::SEND_UNBOUND_BUFFER || opcode == Op::NOTIFY_SEND_READY || opcode == Op::NOTIFY_RECV_READY;
  if (!known || preamble.slot >= static_cast<size_t>(kGlooSlots)) {
    signalException(absl::StrCat("bytes that are no message of Gloo's (opcode ", opcode, ", slot ", preamble.slot, ")"));
    return false;
  }
  if (opcode == Op::SEND_UNBOUND_BUFFER) return CheckPayload();
  return CheckAnnouncement();
}

// The peer is ready to send, or to receive, its next message on this slot.
bool GlooPair::CheckAnnouncement() {
  const int slot = static_cast<int>(rx_.preamble.slot);
  const auto peers_bytes = static_cast<int64_t>(rx_.preamble.length);
  const Direction direction = rx_.getOpcode() == Op::NOTIFY_SEND_READY ? Direction::kReceive : Direction::kSend;
  const MessageLengths::Announcement announcement = lengths(slot, direction).Announce(peers_bytes);
  if (!announcement.fits) {
    signalException("more messages announced than may be under way");
    return false;
  }
  if (announcement.differs) observer_->LengthDiffers(peer_rank_, slot, direction, announcement.index, peers_bytes);
  return true;
}

// Called with the pair's mutex held; true: one message has been read, go on.
bool GlooPair::read() {
  if (state_ == CLOSED) return false;
  ::gloo::NonOwningPtr<tcp::UnboundBuffer> buffer;
  ssize_t turn_bytes = 0;
  for (;;) {
    // nbytes is set when a message has met its receive.
    if (rx_.nread == sizeof(rx_.preamble) && rx_.nbytes == 0 && !CheckPreamble()) return false;
    iovec piece = {};
    const ssize_t wanted = prepareRead(rx_, buffer, piece);
    if (wanted < 0) return false;
    if (wanted == 0) break;
    if (turn_bytes >= kTurnBytes) return false;
    const ssize_t got = ::recv(fd_, piece.iov_base, piece.iov_len, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0) {
      signalException(absl::StrCat("Read error ", peer_.str(), ": ", strerror(errno)));
      return false;
    }
    if (got == 0) {
      signalException(absl::StrCat("Connection closed by peer ", peer_.str()));
      return false;
    }
    rx_.nread += static_cast<size_t>(got);
    turn_bytes += got;
  }
  const bool payload = rx_.getOpcode() == Op::SEND_UNBOUND_BUFFER;
  const size_t slot = rx_.preamble.slot;
  readComplete(buffer);
  if (payload) CountEnded(slot, Direction::kReceive);
  return true;
}

// Called with the pair's mutex held; true: all of `op` has been handed to the system.
bool GlooPair::write(Op& op) {
  if (state_ == CLOSED) return false;
  ::gloo::NonOwningPtr<tcp::UnboundBuffer> buffer;
  const auto opcode = op.getOpcode();
  if (opcode == Op::SEND_UNBOUND_BUFFER) {
    buffer = ::gloo::NonOwningPtr<tcp::UnboundBuffer>(op.ubuf);
    if (!buffer) return false;
  }
  for (ssize_t turn_bytes = 0; op.nwritten < op.preamble.nbytes;) {
    if (turn_bytes >= kTurnBytes) return false;
    std::array<iovec, 2> pieces = {};
    int count = 0;
    prepareWrite(op, buffer, pieces.data(), count);
    msghdr message = {};
    message.msg_iov = pieces.data();
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    // A peer that is gone shows when the socket is read: what it sent before is still there to be taken.
    if (sent < 0 && (errno == EAGAIN || errno == ECONNRESET || errno == EPIPE)) return false;
    if (sent < 0) {
      signalException(absl::StrCat("Write error ", peer_.str(), ": ", strerror(errno)));
      return false;
    }
    op.nwritten += static_cast<size_t>(sent);
    turn_bytes += sent;
  }
  writeComplete(op, buffer, opcode);
  if (opcode == Op::SEND_UNBOUND_BUFFER) CountEnded(op.preamble.slot, Direction::kSend);
  return true;
}

GlooContext::GlooContext(std::shared_ptr<tcp::Device> device, int own_rank, int world_size)
    : tcp::Context(std::move(device), own_rank, world_size) {}

std::unique_ptr<::gloo::transport::Pair>& GlooContext::createPair(int peer) {
  pairs_[static_cast<size_t>(peer)] = std::make_unique<GlooPair>(this, device_.get(), peer);
  return pairs_[static_cast<size_t>(peer)];
}

void GlooContext::Adopt(int peer, int socket, GlooPair::Observer& observer) {
  try {
    createPair(peer);
  } catch (...) {
    ::close(socket);
    throw;
  }
  pair(peer).Adopt(socket, observer);
}

}  // namespace zeroshard::backends
