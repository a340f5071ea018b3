#include "zeroshard/backends/gloo/gloo_backend.h"

#include "zeroshard/backends/gloo/gloo_transport.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

// Room for four pieces of GlooTransport::piece_bytes() of each of two peers; with more, pieces are smaller.
constexpr int64_t kScratchBytes = int64_t{4} << 20;

comm::BackendMemory Memory(const comm::MemoryRequest& request) {
  return comm::HostCommunicatorMemory(request, {.scratch_bytes = kScratchBytes});
}

const bool kRegistered = comm::RegisterBackend("gloo", &MakeGlooCommunicator) && comm::RegisterMemory("gloo", &Memory);

}  // namespace

absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeGlooCommunicator(const comm::BackendOptions& options) {
  ConnectOptions connect;
  connect.store = options.store;
  connect.rank = options.rank;
  connect.world_size = options.world_size;
  connect.timeout = options.timeout;
  connect.interface = options.interface;
  connect.ports = options.ports;
  connect.master_address = options.master_address;
  if (connect.master_address.empty()) connect.master_address = comm::ProcessEnvironment("MASTER_ADDR").value_or("");
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<GlooTransport> transport, GlooTransport::Connect(connect));
  return comm::MakeHostCommunicator(
      *options.device, std::move(transport),
      {.timeout = options.timeout, .scratch_bytes = kScratchBytes, .watch = options.store->watch()});
}

}  // namespace zeroshard::backends
