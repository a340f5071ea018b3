// What NCCL reads from the environment: what we set there, what the user set, and whether the network interface that it names is there.
//
// What the user has set wins, and is given back to be shown; what we cannot live with is refused: communicators that do not block
// (NCCL_COMM_BLOCKING=0), and parts that share the whole's resources, and so its abort (NCCL_COMM_SPLIT_SHARE_RESOURCES=1). We set
// NCCL_RUNTIME_CONNECT=0 (all connections are made with the communicator, so that no collective blocks the host later), NCCL_RAS_ENABLE=0
// (or every process listens on port 28028), NCCL_LAUNCH_ORDER_IMPLICIT=1 (a rank's communicators have streams of their own, and kernels
// that two ranks' GPUs began in unlike orders could wait for each other for ever: they begin in the order of the calls, which is one on
// all ranks), and, for ranks that share a GPU, a NCCL_HOSTID for each, which NCCL would refuse otherwise.
//
// Example:
//   for (const std::string& set : PrepareEnvironment({.rank = rank})) LOG(INFO) << set;
//   ZS_RETURN_IF_ERROR(CheckInterface(wanted, addresses));
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/comm/network_address.h"

namespace zeroshard::backends {

struct NcclEnvironment {
  int rank = 0;
  std::string interface = {};  // for NCCL_SOCKET_IFNAME; empty: NCCL's choice
  bool share_gpu = false;
};

// One of NCCL's variables, while other ranks of the process may set theirs.
std::optional<std::string> NcclVariable(const char* name);

// Errors: kInvalidArgument one of NCCL's variables has a value that is refused (see above).
absl::Status CheckVariables();

// Sets what the user has not, once in a process, before the first call of NCCL. What the user had set, "NCCL_DEBUG=INFO", sorted.
std::vector<std::string> PrepareEnvironment(const NcclEnvironment& environment);

// `wanted` is NCCL_SOCKET_IFNAME's value: beginnings of names with commas between, after "^" those not to use, after "=" whole names.
// Errors: kInvalidArgument no interface that is up fits; the message says which there are.
absl::Status CheckInterface(std::string_view wanted, std::span<const comm::NetworkAddress> here);

}  // namespace zeroshard::backends
