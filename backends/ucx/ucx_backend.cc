#include "zeroshard/backends/ucx/ucx_backend.h"

#include "zeroshard/backends/ucx/ucx_transport.h"
#include "zeroshard/comm/host_communicator.h"
#include "zeroshard/comm/launch_environment.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

comm::BackendMemory Memory(const comm::MemoryRequest& request) { return comm::HostCommunicatorMemory(request); }

const bool kRegistered = comm::RegisterBackend("ucx", &MakeUcxCommunicator) && comm::RegisterMemory("ucx", &Memory);

}  // namespace

absl::StatusOr<std::unique_ptr<comm::Communicator>> MakeUcxCommunicator(const comm::BackendOptions& options) {
  ConnectOptions connect;
  connect.store = options.store;
  connect.rank = options.rank;
  connect.world_size = options.world_size;
  connect.timeout = options.timeout;
  connect.interface = options.interface;
  connect.ports = options.ports;
  connect.master_address = options.master_address;
  if (connect.master_address.empty()) connect.master_address = comm::ProcessEnvironment("MASTER_ADDR").value_or("");
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport, UcxTransport::Connect(connect));
  return comm::MakeHostCommunicator(*options.device, std::move(transport),
                                    {.timeout = options.timeout, .watch = options.store->watch()});
}

}  // namespace zeroshard::backends
