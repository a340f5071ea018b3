// What a peer that shares memory with this rank may have written there: cards, messages of mailboxes, its block of the lines. What it
// says of itself may be anything; what it is said to hold is not read beyond what is there.
//
// Not fuzzed: the mutex of a block, which glibc believes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "glog/logging.h"
#include "zeroshard/backends/ucx/mailboxes.h"
#include "zeroshard/backends/ucx/mapped_card.h"
#include "zeroshard/backends/ucx/mapped_lines.h"
#include "zeroshard/backends/ucx/mapped_region.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::backends {
namespace {

constexpr int kRanks = 2, kPeer = 1;

// The parts of both ranks: zeros.
class Memory {
 public:
  explicit Memory(int64_t bytes) {
    for (int rank = 0; rank < kRanks; ++rank) {
      parts_.push_back(std::aligned_alloc(64, static_cast<size_t>(bytes + 63) / 64 * 64));
      std::memset(parts_.back(), 0, static_cast<size_t>(bytes));
    }
    region_ = MappedRegion::OfParts(parts_, /*rank=*/0, bytes);
  }
  ~Memory() {
    for (void* const part : parts_) std::free(part);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const MappedRegion& region() const { return *region_; }
  void Fill(int rank, const std::string& bytes) {
    std::memcpy(parts_[static_cast<size_t>(rank)], bytes.data(),
                std::min(bytes.size(), static_cast<size_t>(region_->bytes())));
  }
  void* part(int rank) { return parts_[static_cast<size_t>(rank)]; }

 private:
  std::vector<void*> parts_;
  std::unique_ptr<MappedRegion> region_;
};

void ReadCard(const std::string& bytes) {
  const std::optional<MappedCard> card = ParseCard(bytes);
  if (card.has_value()) CHECK_EQ(FormatCard(*card), bytes);
}

// Both ranks' boxes as the peer left them.
void TakeMail(const std::string& bytes) {
  Memory memory(Mailboxes::Bytes(kRanks));
  Mailboxes mail(memory.region(), 0, /*rank=*/0, kRanks);
  memory.Fill(0, bytes);
  memory.Fill(kPeer, bytes);
  constexpr int64_t kRoom = 8;
  for (const comm::Channel channel : {comm::Channel::kControl, comm::Channel::kData}) {
    for (uint64_t number = 0; number < 2 * Mailboxes::kSlots; ++number) {
      const std::unique_ptr<char[]> data(new char[kRoom]);
      int64_t said = 0;
      if (mail.TryTake(kPeer, channel, number, data.get(), kRoom, said)) CHECK_GE(said, 0);
      mail.TryPut(kPeer, channel, data.get(), kRoom);
    }
  }
  mail.WakeReceivers();
}

void ReadBlock(const std::string& bytes) {
  Memory memory(MappedLines::Bytes());
  memory.Fill(kPeer, bytes);
  std::memset(memory.part(kPeer), 0, sizeof(uint32_t));  // It has made no mutex yet.
  MappedLines lines(memory.region(), 0, {.rank = 0, .world_size = kRanks},
                    [](int peer, const absl::Status& /*why*/) { CHECK_EQ(peer, kPeer); });
  CHECK(!lines.LastOf(kPeer).empty());
  // One that has said something is asked nothing.
  if (!lines.WhyFailed(kPeer, absl::Milliseconds(1)).ok()) CHECK(!lines.WhyLate(kPeer).empty());
}

}  // namespace
}  // namespace zeroshard::backends

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  return zeroshard::fuzz::FeedOneOf({&ReadCard, &TakeMail, &ReadBlock}, data, size);
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  std::vector<std::string> seeds = {'\0' + FormatCard({.address = 0x7f0000001000, .bytes = 4096, .key = "a key"})};
  // Mail as a peer puts it: this rank's part, with which the peer's begins.
  Memory memory(Mailboxes::Bytes(kRanks));
  Mailboxes mail(memory.region(), 0, /*rank=*/0, kRanks);
  for (int i = 0; i < 3; ++i) mail.TryPut(kPeer, zeroshard::comm::Channel::kControl, "a message of 120 bytes", 22);
  seeds.push_back('\1' + std::string(static_cast<char*>(memory.part(kPeer)), static_cast<size_t>(memory.region().bytes())));
  // A block, and what becomes of it: at work, taking leave, giving up.
  for (int state = 0; state < 3; ++state) {
    Memory blocks(MappedLines::Bytes());
    {
      MappedLines lines(blocks.region(), 0, {.rank = 0, .world_size = kRanks}, [](int, const absl::Status&) {});
      zeroshard::comm::Operation operation;
      operation.sequence = 7;
      lines.Doing(zeroshard::comm::MakeHeader(operation, 0, kRanks));
      if (state == 1) lines.TakeLeave();
      if (state == 2) lines.GiveUp(absl::FailedPreconditionError("out of paper"));
    }
    seeds.push_back('\2' + std::string(static_cast<char*>(blocks.part(0)), static_cast<size_t>(MappedLines::Bytes())));
  }
  return seeds;
}
