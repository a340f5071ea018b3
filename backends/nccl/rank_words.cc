#include "zeroshard/backends/nccl/rank_words.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/comm/peer_words.h"

namespace zeroshard::backends {
namespace {

constexpr size_t kMostLibraries = 1000, kMostHost = 500;  // characters
constexpr size_t kMostShown = 60;                         // of what makes no sense
constexpr char kAt[] = " at ", kYes[] = "yes", kNo[] = "no";

bool IsPrinted(unsigned char c) { return c >= ' ' && c != '\x7f'; }
bool IsPrintedAscii(unsigned char c) { return IsPrinted(c) && c < '\x7f'; }

template <class Is>
bool IsLine(std::string_view text, size_t most, const Is& is) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), is);
}

absl::Status Strange(int rank, std::string_view value, std::string_view expected) {
  const std::string shown = comm::PeerWords(value.substr(0, kMostShown));
  return absl::FailedPreconditionError(
      absl::StrCat("nccl: rank ", rank, " wrote '", shown, value.size() > kMostShown ? "...' (" : "' (", value.size(),
                   " bytes) to the store, where it writes ", absl::string_view(expected.data(), expected.size()),
                   ": start the same program on all ranks, and nothing else with this job's store"));
}

bool ReadNumber(std::string_view text, int64_t least, int64_t& number) {
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) && number >= least;
}

}  // namespace

std::string FormatRank(const RankWords& words) { return absl::StrCat(words.libraries, "\n", words.host); }

absl::StatusOr<RankWords> ParseRank(int rank, std::string_view value) {
  const size_t end = value.find('\n');
  if (end != value.npos) {
    const std::string_view libraries = value.substr(0, end), host = value.substr(end + 1);
    if (IsLine(libraries, kMostLibraries, &IsPrintedAscii) && IsLine(host, kMostHost, &IsPrinted)) {
      return RankWords{.libraries = std::string(libraries), .host = std::string(host)};
    }
  }
  return Strange(rank, value, "a line with its libraries and one with its host");
}

absl::Status CheckUniqueId(std::string_view value, size_t bytes) {
  if (value.size() == bytes) return absl::OkStatus();
  return Strange(/*rank=*/0, value, absl::StrCat("NCCL's unique id of ", bytes, " bytes"));
}

std::string FormatPlace(const PlaceWords& place) { return absl::StrCat(place.bytes, kAt, place.piece, ":", place.offset); }

absl::StatusOr<PlaceWords> ParsePlace(int rank, std::string_view value) {
  const size_t at = value.find(kAt);
  const size_t colon = value.find(':');
  PlaceWords place;
  if (at != value.npos && colon != value.npos && colon > at && ReadNumber(value.substr(0, at), 0, place.bytes)) {
    const size_t piece = at + sizeof kAt - 1;
    if (piece <= colon && ReadNumber(value.substr(piece, colon - piece), -1, place.piece) &&
        ReadNumber(value.substr(colon + 1), 0, place.offset) && FormatPlace(place) == value) {
      return place;
    }
  }
  return Strange(rank, value, "how many bytes it asks for and where, as in '1000 at 3:4096'");
}

std::string FormatYes(bool yes) { return yes ? kYes : kNo; }

absl::StatusOr<bool> ParseYes(int rank, std::string_view value) {
  if (value == kYes) return true;
  if (value == kNo) return false;
  return Strange(rank, value, "'yes' or 'no'");
}

}  // namespace zeroshard::backends
