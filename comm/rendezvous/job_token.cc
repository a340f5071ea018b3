#include "zeroshard/comm/rendezvous/job_token.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace zeroshard::comm {

absl::StatusOr<std::string> MakeJobToken() {
  std::array<char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::ErrnoToStatus(errno, "rendezvous: the system gives no random bytes for the job's token");
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

absl::Status CheckJobToken(std::string_view token) {
  if (token.size() < kLeastTokenBytes || token.size() > kMostTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: a token of ", token.size(), " bytes; it has ", kLeastTokenBytes, " to ", kMostTokenBytes));
  }
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (printable) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "rendezvous: a token with a space or a byte that cannot be printed; write letters, digits and signs");
}

bool SameToken(std::string_view ours, std::string_view shown) {
  unsigned char different = ours.size() == shown.size() ? 0 : 1;
  for (size_t i = 0; i < shown.size(); ++i) {
    // The compiler must not leave the loop at the first difference.
    const volatile auto a = static_cast<unsigned char>(ours.empty() ? 0 : ours[i % ours.size()]);
    different = static_cast<unsigned char>(different | (a ^ static_cast<unsigned char>(shown[i])));
  }
  return different == 0;
}

}  // namespace zeroshard::comm
