#include "zeroshard/backends/nccl/doubles/message.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

std::string Describe(const Tag& tag) {
  static constexpr const char* kCalls[] = {"ncclSend/ncclRecv", "ncclAllGather",     "ncclBroadcast",
                                           "ncclAllReduce",     "ncclReduceScatter", "ncclReduce"};
  return absl::StrCat(kCalls[tag.call], " of ", tag.count, " elements (dtype ", tag.dtype, ", op ", tag.op, ", root ",
                      tag.root, ")");
}

}  // namespace

bool Sending::Step(const std::byte* from) {
  while (done_ < bytes_) {
    const uint64_t put = channel_->put.load(std::memory_order_acquire);
    if (channel_->taken.load(std::memory_order_acquire) < put) return false;
    channel_->tag = tag_;
    channel_->bytes = std::min(bytes_ - done_, Channel::kBytes);
    std::memcpy(channel_->data, from + done_, channel_->bytes);
    done_ += channel_->bytes;
    channel_->put.store(put + 1, std::memory_order_release);
  }
  return true;
}

void Receiving::Differ(const Tag& theirs) const {
  Tag same = theirs;
  same.registered = tag_.registered;
  same.place = tag_.place;
  if (!(same == tag_)) {
    device::EndTest(absl::StrCat("rank ", rank_, " calls ", Describe(tag_), ", rank ", peer_, " calls ", Describe(theirs),
                                 ": NCCL would hang, or give wrong numbers"));
  }
  if (theirs.registered != tag_.registered) {
    device::EndTest(absl::StrCat("mixed registration: the memory of ", Describe(tag_), " is a window on rank ",
                                 theirs.registered != 0 ? peer_ : rank_, " and not on rank ",
                                 theirs.registered != 0 ? rank_ : peer_));
  }
  device::EndTest(absl::StrCat("the memory of ", Describe(tag_), " lies elsewhere in a symmetric window on rank ", rank_,
                               " than on rank ", peer_));
}

bool Receiving::Step(std::byte* to) {
  while (done_ < bytes_) {
    const uint64_t taken = channel_->taken.load(std::memory_order_acquire);
    if (channel_->put.load(std::memory_order_acquire) == taken) return false;
    if (!(channel_->tag == tag_)) Differ(channel_->tag);
    if (channel_->bytes > bytes_ - done_) device::EndTest("a message is longer than its call");
    std::memcpy(to + done_, channel_->data, channel_->bytes);
    done_ += channel_->bytes;
    channel_->taken.store(taken + 1, std::memory_order_release);
  }
  return true;
}

}  // namespace zeroshard::backends::doubles
