#include "zeroshard/backends/ucx/sealed_value.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ucp/api/ucp.h"
#include "zeroshard/device/text_hash.h"

namespace zeroshard::backends {
namespace {

constexpr std::string_view kMaker = "zeroshard ucx ";
constexpr size_t kMostShown = 32;

// After the head, which ends with a newline.
struct Seal {
  uint64_t bytes;
  uint64_t hash;
};

std::string HeadOf(std::string_view kind) {
  return absl::StrCat(std::string(kMaker), ucp_get_version_string(), " ", std::string(kind), "\n");
}

// Any one byte that differs makes another.
uint64_t HashOf(std::string_view head, std::string_view bytes) { return device::TextHash(bytes, device::TextHash(head)); }

}  // namespace

std::string SealValue(std::string_view kind, std::string_view bytes) {
  const std::string head = HeadOf(kind);
  const Seal seal = {.bytes = bytes.size(), .hash = HashOf(head, bytes)};
  std::string value = head;
  value.append(reinterpret_cast<const char*>(&seal), sizeof(seal));
  return value.append(bytes);
}

absl::StatusOr<std::string> OpenValue(std::string_view kind, int rank, std::string_view value) {
  const std::string head = HeadOf(kind);
  if (!value.starts_with(head)) {
    const std::string_view first = value.substr(0, std::min(value.find('\n'), kMostShown));
    const std::string shown = absl::CHexEscape(std::string(first));
    if (!value.starts_with(kMaker)) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " gave \"", shown, "\" as its UCX ", std::string(kind), ", which is none"));
    }
    return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " has another version of UCX (\"", shown,
                                                      "\") than this rank, which has ", ucp_get_version_string()));
  }
  value.remove_prefix(head.size());
  Seal seal = {};
  std::memcpy(&seal, value.data(), std::min(value.size(), sizeof(seal)));
  value.remove_prefix(std::min(value.size(), sizeof(seal)));
  if (seal.bytes != value.size() || seal.hash != HashOf(head, value)) {
    return absl::FailedPreconditionError(
        absl::StrCat("what rank ", rank, " gave as its UCX ", std::string(kind), " did not come as it was sent"));
  }
  return std::string(value);
}

}  // namespace zeroshard::backends
