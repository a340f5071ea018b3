#include "zeroshard/comm/store_spec.h"

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/rendezvous/service_address.h"
#include "zeroshard/comm/rendezvous/tcp_store.h"
#include "zeroshard/comm/store_file.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

absl::StatusOr<StoreSpec> ParseStoreSpec(std::string_view spec) {
  constexpr std::string_view kFile = "file:";
  const std::string said(spec);
  if (spec.starts_with(kFile)) {
    if (spec.size() == kFile.size() || spec.find('\0') != std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--store=", said, ": names no path; write --store=file:PATH, a folder that all ranks share"));
    }
    return StoreSpec{.kind = StoreKind::kFile, .path = std::string(spec.substr(kFile.size()))};
  }
  constexpr std::string_view kTcp = "tcp:";
  if (spec.starts_with(kTcp)) {
    const absl::StatusOr<ServiceAddress> address = ParseServiceAddress(spec.substr(kTcp.size()));
    if (!address.ok()) return absl::InvalidArgumentError(absl::StrCat("--store=", address.status().message()));
    return StoreSpec{.kind = StoreKind::kTcp, .address = Format(*address)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--store=", said, ": unknown kind of store; write --store=tcp:HOST:PORT of rank 0, or --store=file:PATH, a ",
      "folder that all ranks share"));
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(std::string_view spec, const StoreMember& member) {
  ZS_ASSIGN_OR_RETURN(const StoreSpec parsed, ParseStoreSpec(spec));
  if (parsed.kind == StoreKind::kTcp) {
    ZS_ASSIGN_OR_RETURN(std::unique_ptr<TcpStore> store, TcpStore::Open(parsed.address, member));
    return std::unique_ptr<Store>(std::move(store));
  }
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<FileStore> store, FileStore::Open(parsed.path, member));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace zeroshard::comm
