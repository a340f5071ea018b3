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

void CheckWords(const absl::Status& status) {
  for (const char c : status.message()) CHECK(static_cast<unsigned char>(c) >= ' ' && c != '\x7f') << status;
}

void ReadHeader(comm::Store& store, GroupNotes& notes, const std::string& bytes) {
  CHECK(store.Set("group/op/1/0", bytes).ok());
  const std::atomic<bool> stop{false};
  const absl::Status agreed = notes.Agree(Mine(), absl::Seconds(5), stop);
  CheckWords(agreed);
  CHECK(agreed.ok() || absl::IsFailedPrecondition(agreed)) << agreed;
  const absl::Status late = notes.WhoIsLate(Mine(), absl::Seconds(5), absl::ZeroDuration());
  CheckWords(late);
  CHECK(!late.ok());
}

void ReadCause(comm::Store& store, GroupNotes& notes, const std::string& bytes) {
  CHECK(store.Set("group/given_up", bytes).ok());
  const absl::Status why = notes.WhyGivenUp(/*gone=*/true);
  CheckWords(why);
  if (!why.ok()) CHECK(absl::IsUnavailable(why) || absl::IsFailedPrecondition(why) || absl::IsDeadlineExceeded(why)) << why;
}

void ReadHash(comm::Store& store, GroupNotes& notes, const std::string& bytes) {
  CHECK(store.Set("group/step/2", bytes).ok());
  notes.NoteStep(2, 77);
  const absl::Status same = notes.CheckSteps();
  CheckWords(same);
  CHECK(same.ok() || absl::IsFailedPrecondition(same)) << same;
}

}  // namespace
}  // namespace zeroshard::backends

// The first byte says what the others are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroshard::backends;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  zeroshard::comm::MemoryStore store;
  GroupNotes notes(store, "group/", /*rank=*/1, /*world_size=*/2);
  switch (data[0] % 3) {
    case 0:
      ReadHeader(store, notes, bytes);
      break;
    case 1:
      ReadCause(store, notes, bytes);
      break;
    default:
      ReadHash(store, notes, bytes);
  }
  return 0;
}

std::vector<std::string> zeroshard::fuzz::Seeds() {
  using zeroshard::backends::Mine;
  zeroshard::comm::OperationHeader theirs = Mine();
  theirs.rank = 0;
  zeroshard::comm::OperationHeader other = theirs;
  other.count = 101;
  return {'\0' + BytesOf(theirs),
          '\0' + BytesOf(other),
          "\1"
          "0 9 rank 0, all-reduce: it was killed",
          "\1"
          "0 4 late",
          "\1"
          "1 4 mine",
          "\2"
          "2 77",
          "\2"
          "2 78",
          "\2"
          "3 1"};
}
