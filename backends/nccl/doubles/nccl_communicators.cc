// The double of NCCL: its version and words, and communicators. See nccl_control.h.
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "zeroshard/backends/nccl/doubles/live_comms.h"
#include "zeroshard/backends/nccl/doubles/nccl_control.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::backends::doubles {
namespace {

int VersionFromEnvironment() {
  const char* set = std::getenv("ZEROSHARD_DOUBLE_NCCL");
  return set == nullptr ? NCCL_VERSION_CODE : std::atoi(set);
}

std::atomic<int> version{VersionFromEnvironment()};
std::atomic<bool> abort_hangs{false};
std::atomic<int64_t> aborts{0};

}  // namespace

void SetNcclVersion(int v) { version = v; }
void SetNcclAbortHangs(bool hangs) { abort_hangs = hangs; }
int64_t NcclAborts() { return aborts; }

}  // namespace zeroshard::backends::doubles

using namespace zeroshard::backends::doubles;  // NOLINT(google-build-using-namespace): the functions are C's
using zeroshard::device::EndTest;

extern "C" {

ncclResult_t ncclGetVersion(int* v) {
  *v = version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "an error of the double";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "the double says no more"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  const SharedPlace place = SharedGroup::Make();
  std::memcpy(id->internal, &place, sizeof place);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int world_size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 1) EndTest("a communicator that does not block, which ours never is");
  SharedPlace place;
  std::memcpy(&place, id.internal, sizeof place);
  return MakeComm(place, rank, world_size, comm);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  ncclComm& whole = LiveCommHere(comm, "ncclCommSplit");
  if (config == nullptr || config->blocking != 1) EndTest("a communicator that does not block, which ours never is");
  CommState& state = *whole.state;
  const int64_t choice = (static_cast<int64_t>(color) << 32) + key;
  const std::vector<int64_t> choices = state.shared->Exchange(state.rank, choice, state.aborted);
  if (choices.empty()) return ncclRemoteError;
  int rank = 0, world_size = 0;
  size_t first = 0;  // of the part
  for (size_t r = 0; r < choices.size(); ++r) {
    if (choices[r] >> 32 != color) continue;
    if (world_size++ == 0 || choices[r] < choices[first]) first = r;
    if (choices[r] < choice) ++rank;
  }
  SharedPlace place;
  if (color != NCCL_SPLIT_NOCOLOR && rank == 0) place = SharedGroup::Make();
  const std::vector<int64_t> places = state.shared->Exchange(state.rank, std::bit_cast<int64_t>(place), state.aborted);
  if (places.empty()) return ncclRemoteError;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  return MakeComm(std::bit_cast<SharedPlace>(places[first]), rank, world_size, part);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  LiveComm(comm, "ncclCommGetAsyncError");
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = LiveComm(comm, "ncclCommCuDevice").device;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++aborts;
  while (abort_hangs) usleep(1000);
  TakeComm(comm, "ncclCommAbort")->state->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::unique_ptr<ncclComm> removed = TakeComm(comm, "ncclCommDestroy");
  if (removed->state->in_flight > 0) EndTest("ncclCommDestroy while operations are in flight");
  if (!removed->registered.empty()) EndTest("ncclCommDestroy before its memory was deregistered");
  return ncclSuccess;
}

}  // extern "C"
