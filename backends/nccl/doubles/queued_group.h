// A group of NCCL calls as the double runs it: its messages, in the order of the calls, and what is to be done when all are here.
//
// Example:
//   auto group = std::make_shared<QueuedGroup>(shared, rank);
//   group->Add({.call = Call::kAllGather, ...});
//   while (!group->Poll(map)) { ... }
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroshard/backends/nccl/doubles/message.h"
#include "zeroshard/backends/nccl/doubles/shared_group.h"
#include "zeroshard/device/stream.h"

namespace zeroshard::backends::doubles {

enum class Call : int32_t { kPeerToPeer, kAllGather, kBroadcast, kAllReduce, kReduceScatter, kReduce };

// One call, as it was made. Of a send `out` is null, of a receive `in`; `root` is the peer then.
struct CallArguments {
  Call call = Call::kPeerToPeer;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  ncclDataType_t dtype = ncclUint8;
  int op = 0;
  int root = 0;
  int registered = 0;
  int place = 0;  // see Tag
};

size_t SizeOf(ncclDataType_t dtype);

class QueuedGroup {
 public:
  QueuedGroup(std::shared_ptr<SharedGroup> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

  void Add(const CallArguments& call);
  const std::vector<device::Access>& accesses() const { return accesses_; }

  // Goes on as far as it can; whether all is done.
  bool Poll(const device::AddressMap& map);

 private:
  // `at` within the call's memory; into `staging` where the call reduces.
  struct Out {
    Sending message;
    int peer;
    size_t call;
    size_t at;
    bool done = false;
  };
  struct In {
    Receiving message;
    int peer;
    size_t call;
    size_t at;
    bool done = false;
  };
  struct Kept {
    CallArguments arguments;
    std::vector<std::byte> staging;  // [world_size] parts of a reduction
  };

  void Send(int peer, size_t call, size_t at, size_t count);
  void Receive(int peer, size_t call, size_t at, size_t count);
  Tag TagOf(const CallArguments& call) const;
  void Finish(Kept& call, const device::AddressMap& map) const;

  const std::shared_ptr<SharedGroup> shared_;
  const int rank_;
  std::vector<Kept> calls_;
  std::vector<Out> sends_;
  std::vector<In> receives_;
  std::vector<device::Access> accesses_;
};

}  // namespace zeroshard::backends::doubles
