#include "zeroshard/comm/rendezvous/values.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "zeroshard/comm/store.h"
#include "zeroshard/comm/store_counter.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::comm {

absl::Status Values::Set(std::string_view key, std::string_view value) {
  const auto key_bytes = static_cast<int64_t>(key.size()), value_bytes = static_cast<int64_t>(value.size());
  if (key.empty() || key_bytes > kMaxStoreKeyBytes || value_bytes > kMaxStoreValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a key of ", key_bytes, " and a value of ", value_bytes,
                                                   " bytes; keys have 1 to ", kMaxStoreKeyBytes, " bytes, values ",
                                                   kMaxStoreValueBytes, " at the most"));
  }
  const auto found = values_.find(key);
  const int64_t before = found == values_.end() ? 0 : key_bytes + static_cast<int64_t>(found->second.size());
  const int64_t after = bytes_ - before + key_bytes + value_bytes;
  if (after > kMostBytes || (found == values_.end() && static_cast<int64_t>(values_.size()) >= kMostKeys)) {
    return absl::ResourceExhaustedError(absl::StrCat("the store is full: ", values_.size(), " keys, ", bytes_,
                                                     " bytes; it takes ", kMostKeys, " keys and ", kMostBytes, " bytes"));
  }
  bytes_ = after;
  values_.insert_or_assign(std::string(key), std::string(value));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Values::Add(std::string_view key, int64_t delta) {
  const std::string* const found = Find(key);
  ZS_ASSIGN_OR_RETURN(const int64_t sum,
                      CountUp(found == nullptr ? std::nullopt : std::optional<std::string>(*found), delta));
  ZS_RETURN_IF_ERROR(Set(key, absl::StrCat(sum)));
  return sum;
}

const std::string* Values::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

}  // namespace zeroshard::comm
