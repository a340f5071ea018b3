#include "zeroshard/backends/gloo/gloo_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "zeroshard/backends/gloo/gloo_errors.h"
#include "zeroshard/comm/store_prefix.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::backends {
namespace {

namespace tcp = ::gloo::transport::tcp;
using comm::Channel;
using comm::Transfer;

// How long a rank that leaves stays for the peers that have not taken what it sent.
constexpr absl::Duration kMostLinger = absl::Seconds(10);

// Note: one buffer for all addresses. An UnboundBuffer is a start, a size and the state of one operation; send and recv take an
// offset. One that starts at address 0 and never ends takes the address itself for an offset: so each transfer that may be under
// way has its buffer from the beginning, whatever memory it is about, and none is made on the way.
constexpr size_t kAllOfMemory = std::numeric_limits<size_t>::max();

std::shared_ptr<tcp::Device> MakeDevice() {
  tcp::attr attributes;
  // Only where Gloo's pairs listen before they are handed their sockets: nobody is told, and nobody outside can reach it.
  attributes.hostname = "127.0.0.1";
  return std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(attributes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooTransport>> GlooTransport::Connect(const ConnectOptions& options) {
  ConnectOptions connect = options;
  ZS_ASSIGN_OR_RETURN(std::string store_prefix, StorePrefixOfNext("gloo", connect));
  return ConnectUnder(connect, std::move(store_prefix));
}

absl::StatusOr<std::unique_ptr<GlooTransport>> GlooTransport::ConnectUnder(const ConnectOptions& options,
                                                                           std::string store_prefix) {
  std::unique_ptr<GlooTransport> transport(new GlooTransport(options, std::move(store_prefix)));
  if (options.world_size > 1) ZS_RETURN_IF_ERROR(transport->Open());
  return transport;
}

absl::Status GlooTransport::Open() {
  comm::PrefixStore store(store_prefix_, *options_.store);
  ConnectOptions connect = options_;
  connect.store = &store;
  ZS_ASSIGN_OR_RETURN(std::vector<PeerSockets> peers, ConnectPeers(connect));
  ZS_RETURN_IF_ERROR(CallGloo([&] {
    context_ = std::make_shared<GlooContext>(MakeDevice(), options_.rank, options_.world_size);
    context_->setTimeout(std::chrono::hours(24));
  }));
  ZS_RETURN_IF_ERROR(MakeLanes());
  std::vector<Socket> lines(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) hosts_[i] = peers[i].host;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (peer == options_.rank) continue;
    PeerSockets& sockets = peers[static_cast<size_t>(peer)];
    lines[static_cast<size_t>(peer)] = std::move(sockets.line);
    ZS_RETURN_IF_ERROR(CallGloo([&] { context_->Adopt(peer, sockets.data.release(), *this); }));
  }
  lines_ = std::make_unique<PeerLines>(options_, std::move(lines),
                                       [this](int peer, const absl::Status& why) { Heard(peer, why); });
  return absl::OkStatus();
}

absl::Status GlooTransport::MakeLanes() {
  lanes_.resize(LaneNumber(options_.world_size, Channel::kControl, Direction::kSend));
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i] = std::make_unique<Lane>();
    Lane& lane = *lanes_[i];
    lane.direction = static_cast<Direction>(i % 2);
    lane.channel = static_cast<Channel>(i / 2 % comm::kChannels);
    lane.peer = static_cast<int>(i / 2 / comm::kChannels);
    if (lane.peer == options_.rank) continue;
    for (Entry& entry : lane.entries) {
      ZS_RETURN_IF_ERROR(CallGloo([&] { entry.buffer = context_->createUnboundBuffer(nullptr, kAllOfMemory); }));
    }
  }
  return absl::OkStatus();
}

size_t GlooTransport::LaneNumber(int peer, Channel channel, Direction direction) {
  return (static_cast<size_t>(peer) * comm::kChannels + static_cast<size_t>(channel)) * 2 + static_cast<size_t>(direction);
}

GlooTransport::Lane& GlooTransport::LaneOf(int peer, Channel channel, Direction direction) {
  return *lanes_[LaneNumber(peer, channel, direction)];
}

Transfer GlooTransport::Name(const Lane& lane, uint64_t index) {
  return {(static_cast<uint64_t>(LaneNumber(lane.peer, lane.channel, lane.direction)) << kIndexBits) + index + 1};
}

bool GlooTransport::IsEager(const Lane& lane, const Entry& entry) {
  return lane.direction == Direction::kSend && entry.bytes <= comm::kEagerBytes;
}

Transfer GlooTransport::Begin(Lane& lane, const void* data, int64_t bytes) {
  Entry& entry = lane.entries[lane.posted % kRing];
  entry.bytes = bytes;
  entry.peers_bytes.store(-1);
  const std::optional<int64_t> announced =
      context_->pair(lane.peer).lengths(static_cast<int>(lane.channel), lane.direction).Expect(bytes);
  if (announced.has_value()) {
    entry.peers_bytes.store(*announced);  // and posted nowhere
  } else {
    Post(lane, entry, data);
  }
  return Name(lane, lane.posted++);
}

void GlooTransport::Post(Lane& lane, Entry& entry, const void* data) {
  entry.posted = CauseOfCancel();
  if (!entry.posted.ok()) return;
  if (IsEager(lane, entry)) {
    std::memcpy(entry.eager.data(), data, static_cast<size_t>(entry.bytes));
    data = entry.eager.data();
  }
  entry.posted = CallGloo([&] {
    const auto slot = static_cast<uint64_t>(lane.channel);
    const auto address = reinterpret_cast<uint64_t>(data);
    if (lane.direction == Direction::kSend) {
      entry.buffer->send(lane.peer, slot, address, static_cast<size_t>(entry.bytes));
    } else {
      entry.buffer->recv(lane.peer, slot, address, static_cast<size_t>(entry.bytes));
    }
  });
}

Transfer GlooTransport::Send(int peer, Channel channel, const void* data, int64_t bytes) {
  return Begin(LaneOf(peer, channel, Direction::kSend), data, bytes);
}

Transfer GlooTransport::Receive(int peer, Channel channel, void* data, int64_t bytes) {
  return Begin(LaneOf(peer, channel, Direction::kReceive), data, bytes);
}

absl::Status GlooTransport::CauseOfCancel() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_.has_value() ? *cancelled_ : absl::OkStatus();
}

// Why the first peer that failed did; OK where none has.
absl::Status GlooTransport::FirstFailure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_failure_.has_value() ? first_failure_->second : absl::OkStatus();
}

// Ends what the communicator's thread waits for, and the next wait for each transfer that may be posted.
void GlooTransport::WakeWaits() {
  const device::VendorScope scope;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->peer == options_.rank) continue;
    for (Entry& entry : lane->entries) {
      lane->direction == Direction::kSend ? entry.buffer->abortWaitSend() : entry.buffer->abortWaitRecv();
    }
  }
}

void GlooTransport::Cancel(const absl::Status& cause) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled_.has_value()) return;
    cancelled_ = cause;
  }
  WakeWaits();
  if (lines_ != nullptr) lines_->GiveUp(cause);
}

void GlooTransport::Quiesce() {
  if (context_ == nullptr) return;
  // Short sends that ended well, of earlier operations, are not lost with this one.
  if (lines_ != nullptr) Linger(kAftermath);
  for (int peer = 0; peer < options_.world_size; ++peer) {
    // None where Open failed on the way.
    if (context_->getPair(peer) == nullptr) continue;
    // A pair that cannot be shut is shut already.
    CallGloo([&] { context_->pair(peer).Shut("cancelled"); }).IgnoreError();
  }
}

void GlooTransport::Heard(int peer, const absl::Status& why) {
  if (why.ok()) return;
  std::function<void(int, const absl::Status&)> tell;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!first_failure_.has_value()) {
      first_failure_.emplace(peer, why);
      tell = on_peer_failed_;
    }
  }
  // Those for other peers too: no collective ends well without this one.
  WakeWaits();
  if (tell != nullptr) tell(peer, why);
}

void GlooTransport::Doing(const comm::OperationHeader& operation) {
  if (lines_ != nullptr) lines_->Doing(operation);
}

void GlooTransport::Met(std::span<const int> peers) {
  if (lines_ != nullptr) lines_->Met(peers);
}

void GlooTransport::OnPeerFailed(std::function<void(int rank, const absl::Status& why)> failed) {
  std::optional<std::pair<int, absl::Status>> already;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    on_peer_failed_ = failed;
    already = first_failure_;
  }
  if (already.has_value() && failed != nullptr) failed(already->first, already->second);
}

// On Gloo's I/O thread, under the pair's mutex.
void GlooTransport::LengthDiffers(int peer, int slot, Direction direction, uint64_t index, int64_t peers_bytes) {
  Entry& entry = LaneOf(peer, static_cast<Channel>(slot), direction).entries[index % kRing];
  entry.peers_bytes.store(peers_bytes);
  direction == Direction::kSend ? entry.buffer->abortWaitSend() : entry.buffer->abortWaitRecv();
}

absl::StatusOr<std::unique_ptr<comm::Transport>> GlooTransport::Split(const comm::SplitSpec& spec) {
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<GlooTransport> transport,
                      ConnectUnder(OfSplit(options_, spec.members, spec.rank, spec.timeout),
                                   absl::StrCat(store_prefix_, spec.id, ".", spec.members[0], "/")));
  return std::unique_ptr<comm::Transport>(std::move(transport));
}

// Whether `peer` has all that this rank sent it, or will never take it.
bool GlooTransport::Delivered(int peer) {
  if (lines_->state(peer) != PeerLines::State::kHere) return true;
  GlooPair& pair = context_->pair(peer);
  for (int channel = 0; channel < comm::kChannels; ++channel) {
    const uint64_t posted = LaneOf(peer, static_cast<Channel>(channel), Direction::kSend).posted;
    if (pair.ended(channel, Direction::kSend) < posted) return false;
  }
  return pair.Flushed();
}

// Stays until all peers have what this rank sent them.
void GlooTransport::Linger(absl::Duration most) {
  const absl::Time end = absl::Now() + most;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    while (peer != options_.rank && !Delivered(peer) && absl::Now() < end) absl::SleepFor(absl::Microseconds(200));
  }
}

GlooTransport::~GlooTransport() {
  if (lines_ != nullptr && CauseOfCancel().ok()) {
    Linger(std::min(options_.timeout, kMostLinger));
    lines_->TakeLeave();
  }
  lines_.reset();
  Quiesce();
  lanes_.clear();
  CallGloo([&] { context_.reset(); }).IgnoreError();
}

}  // namespace zeroshard::backends
