#include "zeroshard/comm/store_default.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/text_hash.h"

namespace zeroshard::comm {
namespace {

// The same on every rank and in every build.
int PortFrom(std::string_view id, const PortRange& ports) { return MadeUpPort(ports, device::TextHash(id)); }

std::string Tcp(const std::string& host, int port) {
  const bool bare = host.find(':') == std::string::npos;
  return absl::StrCat("tcp:", bare ? "" : "[", host, bare ? ":" : "]:", port);
}

}  // namespace

std::string FirstHost(std::string_view list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t end = list.find(']', i);
    if (end == std::string_view::npos) return "";
    const std::string_view choices = list.substr(i + 1, end - i - 1);
    host += choices.substr(0, choices.find_first_of(",-"));
    i = end;
  }
  return host;
}

absl::StatusOr<std::string> DefaultStore(const LaunchEnvironment& launch, int parent, const PortRange& ports) {
  const std::string launcher(Name(launch.launcher));
  if (!launch.master_address.empty() && launch.master_port != 0) {
    const int port = launch.master_port + (launch.agent_holds_master_port ? 1 : 0);
    if (port <= 65535) return Tcp(launch.master_address, port);
    return absl::InvalidArgumentError(absl::StrCat("MASTER_PORT=", launch.master_port,
                                                   " is held by torchrun's agent, and there is no port after it; give ",
                                                   "torchrun a lower --master-port, or --store=tcp:HOST:PORT"));
  }
  if (launch.launcher == Launcher::kTorchrun) {
    return absl::InvalidArgumentError(
        absl::StrCat("RANK and WORLD_SIZE are set, but ", launch.master_address.empty() ? "MASTER_ADDR" : "MASTER_PORT",
                     " is not: the ranks do not know where to meet; set it, or give --store=tcp:HOST:PORT of rank 0"));
  }
  if (launch.launcher == Launcher::kSlurm) {
    const std::string first = launch.single_host() ? "127.0.0.1" : FirstHost(launch.slurm_node_list);
    if (!first.empty()) return Tcp(first, PortFrom(launch.job_id, ports));
  }
  if (launch.single_host()) {
    const std::string id = launch.job_id.empty() ? absl::StrCat("parent ", parent) : launch.job_id;
    return Tcp("127.0.0.1", PortFrom(id, ports));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "ranks that ", launcher, " starts on several hosts do not know where to meet: give --store=tcp:HOST:PORT, of rank ",
      "0's host and a free port there"));
}

}  // namespace zeroshard::comm
