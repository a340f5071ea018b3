// One collective of a test: its memory on a rank, what every byte of that memory must hold afterwards, and the call.
//
// A rank's arrays of a case lie in one buffer, with gaps; after the collective the whole buffer is compared with an image made by
// reference.h, so that what must not be touched is held to that too.
//
// Example: on each rank's thread,
//   CaseOnRank on_rank(communicator, {.kind = OpKind::kAllGather, .in = DType::kInt32, .out = DType::kInt32, .counts = {5, 0}});
//   Work work = on_rank.Issue();
//   on_rank.Check(work);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard::comm::testing {

struct Case {
  OpKind kind = OpKind::kAllReduce;
  ReduceOp op = ReduceOp::kSum;
  device::DType in = device::DType::kFloat32;
  device::DType out = device::DType::kFloat32;
  std::vector<int64_t> counts = {1};  // of each segment's part
  int64_t gap = 0;                    // elements between ranks' parts
  bool in_place = false;
  int root = 0;
  bool wait_at_once = false;
  bool registered = false;  // memory of Communicator::Allocate: all ranks make their cases in one order
  uint64_t seed = 1;
};

std::string Describe(const Case& c);

// Data that this rank sends in it, by the direct schedules' formulas; bytes.
int64_t DirectBytes(const Case& c, int rank, int world_size);

class CaseOnRank {
 public:
  CaseOnRank(Communicator& communicator, const Case& c);
  ~CaseOnRank();

  Work Issue();
  // Waits on a stream, reads back, and compares.
  void Check(Work& work);

 private:
  struct Place {
    int64_t in_bytes;  // where in the buffer
    int64_t out_bytes;
    Segment segment;
  };
  int64_t Layout();
  void FillInputs();
  void FillExpected();
  void ExpectPart(size_t segment, int part, int64_t to_bytes);

  Communicator& communicator_;
  const Case case_;
  const int rank_;
  const int world_size_;
  std::vector<Place> places_;
  std::vector<Segment> segments_;
  std::vector<std::byte> image_;  // before, then what is expected
  device::Buffer buffer_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> ready_;
};

}  // namespace zeroshard::comm::testing
