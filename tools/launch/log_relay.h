// Shows what several ranks write to their standard errors on one: whole lines, each with its rank before it, and rank 0's progress:
// one line that is written over on a terminal, lines of their own elsewhere.
//
// A line that begins with '\r' is progress (trainer::ProgressOptions::relayed), and one of '\r' alone its end. One that begins with "error: " is why a rank ends: it
// is kept, so that it can be said last.
//
// Example:
//   LogRelay relay(/*ranks=*/2, /*descriptor=*/2, LogRelay::Progress::kLive);
//   relay.Feed(1, "I0101 connected\n");                   // [rank 1] I0101 connected
//   relay.Reason(1);                                      // "" so far
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroshard::tools {

class LogRelay {
 public:
  enum class Progress { kLive, kLines };

  LogRelay(int ranks, int descriptor, Progress progress);

  // What rank `rank` wrote, in pieces as they come.
  void Feed(int rank, std::string_view bytes);
  // Shows what lacks its line end, and leaves the progress standing.
  void End();
  // The rank's last "error: " line, without that word; empty if there was none.
  const std::string& Reason(int rank) const { return reasons_[static_cast<size_t>(rank)]; }

 private:
  void Line(int rank, std::string_view line);
  void Write(std::string_view text) const;

  int descriptor_;
  Progress style_;
  std::vector<std::string> pending_;
  std::vector<std::string> reasons_;
  std::string progress_;  // the live line that stands now
};

}  // namespace zeroshard::tools
