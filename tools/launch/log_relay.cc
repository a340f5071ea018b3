#include "zeroshard/tools/launch/log_relay.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace zeroshard::tools {
namespace {

constexpr std::string_view kError = "error: ";
// A line longer than this is shown in pieces: nobody's output is held without bound.
constexpr size_t kLongestLine = 1 << 16;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

LogRelay::LogRelay(int ranks, int descriptor, Progress progress)
    : descriptor_(descriptor),
      style_(progress),
      pending_(static_cast<size_t>(ranks)),
      reasons_(static_cast<size_t>(ranks)) {}

void LogRelay::Feed(int rank, std::string_view bytes) {
  std::string& pending = pending_[static_cast<size_t>(rank)];
  pending.append(bytes);
  size_t begin = 0;
  for (size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Line(rank, std::string_view(pending).substr(begin, end - begin));
  }
  pending.erase(0, begin);
  if (pending.size() <= kLongestLine) return;
  Line(rank, pending);
  pending.clear();
}

void LogRelay::Line(int rank, std::string_view line) {
  if (line.substr(0, 1) == "\r") {
    if (style_ == Progress::kLines) return line.size() == 1 ? void() : Write(absl::StrCat(View(line.substr(1)), "\n"));
    if (line.size() == 1 && !progress_.empty()) Write("\n");
    progress_ = line.substr(1);
    if (progress_.empty()) return;
    Write(absl::StrCat("\r", progress_, "\033[K"));
    return;
  }
  if (line.substr(0, kError.size()) == kError) reasons_[static_cast<size_t>(rank)] = line.substr(kError.size());
  const std::string shown = absl::StrCat("[rank ", rank, "] ", View(line), "\n");
  // The progress makes room, and stands below what came.
  Write(progress_.empty() ? shown : absl::StrCat("\r\033[K", shown, progress_));
}

void LogRelay::End() {
  for (size_t rank = 0; rank < pending_.size(); ++rank) {
    if (!pending_[rank].empty()) Line(static_cast<int>(rank), pending_[rank]);
    pending_[rank].clear();
  }
  if (!progress_.empty()) Write("\n");
  progress_.clear();
}

void LogRelay::Write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace zeroshard::tools
