#include "zeroshard/backends/gloo/endpoint.h"

#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "zeroshard/backends/gloo/greeting.h"
#include "zeroshard/comm/network_address.h"

namespace zeroshard::backends {

std::string HostIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  char space[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
  return absl::StrCat(boot, " ", length > 0 ? space : "?");
}

std::string FormatEndpoint(const Endpoint& endpoint) {
  return absl::StrCat(endpoint.address, " ", endpoint.port, " ", endpoint.token);
}

absl::StatusOr<Endpoint> ParseEndpoint(int rank, const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  Endpoint endpoint;
  sockaddr_storage unused;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &endpoint.port) || endpoint.port < 1 || endpoint.port > 65535 ||
      parts[2].size() != kTokenBytes || comm::MakeSocketAddress(parts[0], endpoint.port, unused) == 0) {
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, " has published no address but \"", absl::CHexEscape(text.substr(0, 80)), "\""));
  }
  endpoint.address = parts[0];
  endpoint.token = parts[2];
  return endpoint;
}

}  // namespace zeroshard::backends
