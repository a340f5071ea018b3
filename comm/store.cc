#include "zeroshard/comm/store.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {
namespace {

std::string Quoted(std::string_view key) {
  return absl::StrCat("\"", absl::CHexEscape(absl::string_view(key.data(), key.size())), "\"");
}

absl::Status CheckKey(std::string_view key) {
  if (!key.empty() && static_cast<int64_t>(key.size()) <= kMaxStoreKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("store: a key of ", key.size(), " bytes (", Quoted(key.substr(0, 40)),
                                                 "...): keys have 1 to ", kMaxStoreKeyBytes, " bytes"));
}

std::string Missing(const std::vector<std::string>& keys) {
  constexpr size_t kNamed = 8;
  const size_t named = std::min(keys.size(), kNamed);
  std::string text = absl::StrJoin(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(named), ", ",
                                   [](std::string* out, const std::string& key) { absl::StrAppend(out, Quoted(key)); });
  if (named < keys.size()) absl::StrAppend(&text, " and ", keys.size() - named, " more");
  return text;
}

}  // namespace

absl::Status Store::Set(std::string_view key, std::string_view value) {
  ZS_RETURN_IF_ERROR(CheckKey(key));
  if (static_cast<int64_t>(value.size()) > kMaxStoreValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat("store: a value of ", value.size(), " bytes under ", Quoted(key),
                                                   ": at most ", kMaxStoreValueBytes, " are taken"));
  }
  return DoSet(key, value);
}

absl::StatusOr<std::string> Store::Get(std::string_view key, absl::Duration timeout) {
  const std::string one(key);
  ZS_RETURN_IF_ERROR(Wait({&one, 1}, timeout));
  ZS_ASSIGN_OR_RETURN(std::optional<std::string> value, DoTryGet(key));
  if (!value.has_value()) return absl::InternalError(absl::StrCat(Describe(), ": lost the key ", Quoted(key)));
  return *std::move(value);
}

absl::StatusOr<std::optional<std::string>> Store::TryGet(std::string_view key) {
  ZS_RETURN_IF_ERROR(CheckKey(key));
  return DoTryGet(key);
}

absl::Status Store::Wait(std::span<const std::string> keys, absl::Duration timeout) {
  for (const std::string& key : keys) ZS_RETURN_IF_ERROR(CheckKey(key));
  std::vector<std::string> missing(keys.begin(), keys.end());
  ZS_RETURN_IF_ERROR(DoWait(missing, timeout));
  if (missing.empty()) return absl::OkStatus();
  const std::string who = watch() == nullptr ? "" : watch()->WhoIsMissing();
  return absl::DeadlineExceededError(absl::StrCat(Describe(), ": waited ", absl::FormatDuration(timeout), " for ",
                                                  Missing(missing), ", which no rank has set", who.empty() ? "" : "; ",
                                                  who));
}

absl::Status Store::DoWait(std::vector<std::string>& keys, absl::Duration timeout) {
  const absl::Time start = absl::Now();
  for (int round = 0;; ++round) {
    std::vector<std::string> still;
    for (std::string& key : keys) {
      ZS_ASSIGN_OR_RETURN(std::optional<std::string> value, DoTryGet(key));
      if (!value.has_value()) still.push_back(std::move(key));
    }
    keys = std::move(still);
    const absl::Duration left = timeout - (absl::Now() - start);
    if (keys.empty() || left <= absl::ZeroDuration()) return absl::OkStatus();
    DoPause(round, left);
  }
}

absl::StatusOr<int64_t> Store::Add(std::string_view key, int64_t delta) {
  ZS_RETURN_IF_ERROR(CheckKey(key));
  return DoAdd(key, delta);
}

}  // namespace zeroshard::comm
