// A trace as Chrome's viewer and Perfetto (ui.perfetto.dev) read it: one JSON object, a process a rank, a thread a track.
//
// Threads: 0 compute, 1 communication (copies of a transport), 2 and 3 copies, 4 host, 8 and on one for each communicator. Times are
// microseconds since the first span of rank 0, on rank 0's clock. An event's args hold what TraceReport reads: step, sequence,
// bytes, label, of a collective when it was issued and when all that it comes after had been done, of a wait whose end it waits for.
//
// The object is whole after every call of AddRank: what the next one writes goes over the closing brackets. So a run that dies
// leaves a file that can be opened.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(TraceFile file, TraceFile::Create("run.trace.json"));
//   file.AddRank({.rank = 0, .host = "a", .pid = 123}, spans);
//   ZS_RETURN_IF_ERROR(file.Close());
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/span.h"

namespace zeroshard::trainer {

struct TraceRank {
  int rank = 0;
  std::string host = {};
  int64_t pid = 0;
  int64_t clock_ahead_ns = 0;  // of rank 0's
  int64_t dropped = 0;         // spans that had no room
};

class TraceFile {
 public:
  // Errors: the system's, with the path.
  static absl::StatusOr<TraceFile> Create(const std::string& path);
  ~TraceFile();
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&&) = delete;

  // Spans that have not begun are left out; one that has not ended ends `now_ns`, and says so.
  absl::Status AddRank(const TraceRank& rank, std::span<const device::Span> spans, int64_t now_ns);
  absl::Status Close();

 private:
  TraceFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status Write(const std::string& text);

  std::string path_;
  int descriptor_ = -1;
  int64_t end_ = 0;         // where the closing brackets stand
  int64_t origin_ns_ = -1;  // of the axis
};

}  // namespace zeroshard::trainer
