#include "zeroshard/comm/store_spec.h"

#include "absl/strings/str_cat.h"
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
    return StoreSpec{StoreKind::kFile, std::string(spec.substr(kFile.size()))};
  }
  if (spec.starts_with("tcp:")) {
    return absl::UnimplementedError(absl::StrCat(
        "--store=", said, ": this build has no store over TCP; write --store=file:PATH, a folder that all ranks share"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--store=", said, ": unknown kind of store; write --store=file:PATH, a folder that all ranks share"));
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(std::string_view spec, const StoreMember& member) {
  ZS_ASSIGN_OR_RETURN(const StoreSpec parsed, ParseStoreSpec(spec));
  ZS_ASSIGN_OR_RETURN(std::unique_ptr<FileStore> store, FileStore::Open(parsed.path, member));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace zeroshard::comm
