#include "zeroshard/tools/launch/meeting.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/rendezvous/token_file.h"
#include "zeroshard/comm/store_spec.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::tools {
namespace {

// The socket that the launcher handed down, if it listens at the store's port; -1: none. A variable that was meant for another
// process is no harm.
int HandedDownListener(const std::string& address) {
  const std::optional<std::string> text = comm::ProcessEnvironment(kListenerVariable);
  int listener = -1;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &listener) || listener <= STDERR_FILENO) return -1;
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return -1;
  const auto wanted = comm::ParseServiceAddress(address);
  return wanted.ok() && comm::BoundPort(listener) == wanted->port ? listener : -1;
}

absl::Status FindToken(const MeetingOptions& options, const comm::LaunchEnvironment& launch, const std::string& address,
                       comm::StoreMember& member) {
  if (!options.token_file.empty()) {
    ZS_ASSIGN_OR_RETURN(const std::optional<std::string> token, comm::ReadTokenFile(options.token_file));
    if (!token.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("--token_file=", options.token_file,
                                                     ": there is no such file; make one of mode 600 with the same 16 or ",
                                                     "more random characters on every host"));
    }
    member.token = *token;
    return absl::OkStatus();
  }
  member.token = comm::ProcessEnvironment(kTokenVariable).value_or("");
  if (!member.token.empty()) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(member.token_path, comm::TokenPath(launch, comm::ProcessEnvironment, getppid(), address));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<comm::Store>> Meet(const MeetingOptions& options, const comm::LaunchEnvironment& launch) {
  ZS_ASSIGN_OR_RETURN(const comm::StoreSpec spec, comm::ParseStoreSpec(options.store));
  comm::StoreMember member;
  member.rank = launch.rank;
  member.world_size = launch.world_size;
  member.timeout = options.timeout;
  member.terms = options.terms;
  member.single_host = launch.single_host();
  member.bind = options.bind;
  if (spec.kind == comm::StoreKind::kTcp) {
    ZS_RETURN_IF_ERROR(FindToken(options, launch, spec.address, member));
    if (launch.rank == 0) member.listener = HandedDownListener(spec.address);
  }
  return comm::OpenStore(options.store, member);
}

std::string MasterOf(const std::string& store) {
  const auto spec = comm::ParseStoreSpec(store);
  if (!spec.ok() || spec->kind != comm::StoreKind::kTcp) return "";
  const auto address = comm::ParseServiceAddress(spec->address);
  return address.ok() ? address->host : "";
}

std::string InterfaceOf(const std::string& bind, int rank) {
  sockaddr_storage unused;
  return rank == 0 || comm::MakeSocketAddress(bind, 0, unused) == 0 ? bind : "";
}

}  // namespace zeroshard::tools
