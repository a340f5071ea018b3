#include "zeroshard/backends/nccl/nccl_backend.h"

#include "zeroshard/backends/nccl/join.h"
#include "zeroshard/backends/nccl/nccl_communicator.h"

namespace zeroshard::backends {
namespace {

// The library is linked whole (alwayslink), so that naming it in deps is enough.
[[maybe_unused]] const bool kRegistered = comm::RegisterBackend("nccl", &MakeNcclBackend, &CheckNcclSurroundings);

}  // namespace

absl::Status CheckNcclSurroundings(const comm::BackendOptions& options) { return LookAround(options.interface).status(); }

absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeNcclBackend(const comm::BackendOptions& options) {
  NcclOptions nccl{.device = options.device,
                   .store = options.store,
                   .rank = options.rank,
                   .world_size = options.world_size,
                   .timeout = options.timeout,
                   .reduction = options.reduction,
                   .interface = options.interface,
                   .share_gpu = options.share_gpu};
  if (options.scratch_bytes > 0) nccl.scratch_bytes = options.scratch_bytes;
  return MakeNcclCommunicator(nccl);
}

}  // namespace zeroshard::backends
