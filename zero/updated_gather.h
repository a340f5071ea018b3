// Makes parameters that stay whole (stages 1 and 2; persistent ones of stage 3) whole again after a step's update: each rank wrote its
// part in place, and gets the others'. In buckets, each of which leaves as soon as the update has come past it, while the optimizer
// works on what follows.
//
// A bucket is allgather_bucket_size elements (rounded as gradients' buckets are) of the sections in their order, or what one unit is
// the first to use of them. It travels as one all-gather; as a broadcast from each rank where parts are not equal
// (Partition::kTensor), or allgather_partitions is off.
//
// Example:
//   gather.Begin();
//   ... compute writes this rank's part of sections 0 to 2 ...
//   gather.WrittenBefore(3);
//   ... the rest ...
//   gather.Finish();
//   gather.WorkOf(2).WaitOn(compute);
#pragma once

#include <memory>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/device.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

class UpdatedGather {
 public:
  struct Whole {
    int section = 0;
    device::Array memory;  // all of it
  };
  // `sections`: trainable ones, ascending. All references outlive this.
  UpdatedGather(comm::Communicator& communicator, const Layout& layout, const EngineOptions& options,
                device::Stream& compute, std::vector<Whole> sections);

  // Nothing is written of the next update.
  void Begin() { next_ = 0; }
  // As compute stands, this rank's part of all sections before this one is written: full buckets leave. Without overlap they wait
  // for Finish.
  void WrittenBefore(int section);
  // All is written: the rest leaves.
  void Finish();
  // The end of what was issued last of a section; done where it has no element that any rank wrote.
  comm::Work WorkOf(int section) const { return work_[section]; }
  // The end of all that was issued.
  comm::Work last() const { return last_; }

 private:
  struct Piece {
    size_t whole = 0;  // index
    Range positions;   // flat: columns of the section seen as [N, shard]; tensor: elements that have an owner
  };
  struct Bucket {
    std::vector<Piece> pieces;
    std::unique_ptr<device::Event> written;
  };

  void MakeBuckets();
  int64_t Positions(int section) const;
  int SectionOf(const Piece& piece) const { return sections_[piece.whole].section; }
  void Issue(Bucket& bucket);
  comm::Work AllGather(const Bucket& bucket, const comm::CallOptions& call);
  comm::Work BroadcastFromOwners(const Bucket& bucket, const comm::CallOptions& call);

  comm::Communicator* communicator_;
  const Layout* layout_;
  const EngineOptions* options_;
  device::Stream* compute_;
  bool flat_;
  std::vector<Whole> sections_;
  std::vector<Bucket> buckets_;
  size_t next_ = 0;               // the bucket that leaves next
  std::vector<comm::Work> work_;  // [section]
  comm::Work last_;
  std::vector<comm::Segment> segments_;
};

}  // namespace zeroshard::zero
