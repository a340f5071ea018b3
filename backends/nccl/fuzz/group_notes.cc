// What other ranks may have written about their group in the store: headers of operations, why they gave up, hashes of steps.
#include "zeroshard/backends/nccl/group_notes.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "glog/logging.h"
#include "zeroshard/comm/operation_header.h"
#include "zeroshard/comm/store_memory.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::backends {
namespace {

comm::OperationHeader Mine() {
  comm::Operation operation;
  operation.kind = comm::OpKind::kAllReduce;
  operation.sequence = 1;
  operation.count = 100;
  return comm::MakeHeader(operation, /*rank=*/1, /*world_size=*/2);
}

// As this rank, 1 of 2, sees it.
struct Group {
  comm::MemoryStore store;
  GroupNotes notes{store, "group/", /*rank=*/1, /*world_size=*/2};
};

void ReadHeader(const std::string& bytes) {
  Group group;
  CHECK(group.store.Set("group/op/1/0", bytes).ok());
  const std::atomic<bool> stop{false};
  const absl::Status agreed = group.notes.Agree(Mine(), absl::Seconds(5), stop);
  CHECK(fuzz::Prints(agreed.message())) << agreed;
  CHECK(agreed.ok() || absl::IsFailedPrecondition(agreed)) << agreed;
  const absl::Status late = group.notes.WhoIsLate(Mine(), absl::Seconds(5), absl::ZeroDuration());
  CHECK(fuzz::Prints(late.message())) << late;
  CHECK(!late.ok());
}

void ReadCause(const std::string& bytes) {
  Group group;
  CHECK(group.store.Set("group/given_up", bytes).ok());
  const absl::Status why = group.notes.WhyGivenUp(/*gone=*/true);
  CHECK(fuzz::Prints(why.message())) << why;
  if (!why.ok()) CHECK(absl::IsUnavailable(why) || absl::IsFailedPrecondition(why) || absl::IsDeadlineExceeded(why)) << why;
}

void ReadHash(const std::string& bytes) {
  Group group;
  CHECK(group.store.Set("group/step/2", bytes).ok());
  group.notes.NoteStep(2, 77);
  const absl::Status same = group.notes.CheckSteps();
  CHECK(fuzz::Prints(same.message())) << same;
  CHECK(same.ok() || absl::IsFailedPrecondition(same)) << same;
}

}  // namespace
}  // namespace zeroshard::backends

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  return zeroshard::fuzz::FeedOneOf({&ReadHeader, &ReadCause, &ReadHash}, data, size);
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using zeroshard::backends::Mine;
  zeroshard::comm::OperationHeader theirs = Mine();
  theirs.rank = 0;
  zeroshard::comm::OperationHeader other = theirs;
  other.count = 101;
  const auto with = [](char kind, const std::string& text) { return kind + text; };
  return {with(0, BytesOf(theirs)), with(0, BytesOf(other)), with(1, "0 9 rank 0, all-reduce: it was killed"),
          with(1, "0 4 late"),      with(1, "1 4 mine"),     with(2, "2 77"),
          with(2, "2 78"),          with(2, "3 1")};
}
