#include "zeroshard/trainer/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

using device::Span;
using device::SpanKind;

constexpr char kOpening[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
constexpr char kClosing[] = "\n]}\n";
constexpr size_t kPiece = 1 << 18;

// Names are other people's: any bytes.
std::string Quoted(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string NameOfTrack(const Span& span) {
  constexpr std::array<const char*, 5> kNames = {"compute", "transport", "copy down", "copy up", "host"};
  if (span.track < kNames.size()) return kNames[span.track];
  if (span.group[0] != '\0') return absl::StrCat("communication, ", std::string(device::View(span.group)));
  const int communicator = span.track - device::kFirstCommunicatorTrack;
  return communicator == 0 ? "communication" : absl::StrCat("communication ", communicator + 1);
}

std::string Title(const Span& span) {
  std::string title(span.kind == SpanKind::kCollective ? device::View(span.name) : device::Name(span.kind));
  if (span.kind == SpanKind::kStep) return absl::StrCat(title, " ", span.step);
  if (span.label[0] != '\0') absl::StrAppend(&title, " ", std::string(device::View(span.label)));
  return title;
}

std::string Metadata(int rank, int track, const char* what, const std::string& key, const std::string& value) {
  return absl::StrCat("{\"ph\": \"M\", \"pid\": ", rank, ", \"tid\": ", track, ", \"name\": \"", what, "\", \"args\": {\"",
                      key, "\": ", value, "}}");
}

class Events {
 public:
  Events(const TraceRank& rank, int64_t origin_ns, int64_t now_ns) : rank_(rank), origin_ns_(origin_ns), now_ns_(now_ns) {}

  double Microseconds(int64_t time_ns) const {
    return static_cast<double>(time_ns - rank_.clock_ahead_ns - origin_ns_) / 1000;
  }

  std::string Event(const Span& span) const {
    const bool ended = span.ended_ns != 0;
    const int64_t end_ns = ended ? span.ended_ns : std::max(now_ns_, span.begun_ns);
    std::string text = absl::StrFormat(
        "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"cat\": \"%s\", \"name\": %s, \"ts\": %.3f, "
        "\"dur\": %.3f, \"args\": {\"step\": %d",
        rank_.rank, span.track, std::string(device::Name(span.kind)), Quoted(Title(span)), Microseconds(span.begun_ns),
        static_cast<double>(end_ns - span.begun_ns) / 1000, span.step);
    if (span.label[0] != '\0') absl::StrAppend(&text, ", \"label\": ", Quoted(device::View(span.label)));
    if (span.bytes != 0) absl::StrAppend(&text, ", \"bytes\": ", span.bytes);
    if (span.sequence != 0) absl::StrAppend(&text, ", \"sequence\": ", span.sequence);
    if (span.kind == SpanKind::kCollective) text += OfCollective(span);
    if (span.kind == SpanKind::kWait || span.kind == SpanKind::kHostWait) {
      absl::StrAppend(&text, ", \"for\": ", Quoted(device::View(span.name)), ", \"for_tid\": ", int{span.other_track},
                      ", \"control\": ", span.control ? "true" : "false");
    }
    if (!ended) text += ", \"unfinished\": true";
    return text + "}}";
  }

 private:
  std::string OfCollective(const Span& span) const {
    std::string text = absl::StrFormat(", \"dtype\": \"%s\", \"count\": %d, \"control\": %s, \"issued\": %.3f",
                                       std::string(device::Name(span.dtype)), span.count, span.control ? "true" : "false",
                                       Microseconds(span.issued_ns));
    if (span.group[0] != '\0') absl::StrAppend(&text, ", \"group\": ", Quoted(device::View(span.group)));
    if (span.ready_ns != 0) text += absl::StrFormat(", \"ready\": %.3f", Microseconds(span.ready_ns));
    return text;
  }

  const TraceRank& rank_;
  int64_t origin_ns_;
  int64_t now_ns_;
};

}  // namespace

absl::StatusOr<TraceFile> TraceFile::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the trace '", path, "'"));
  TraceFile file(path, descriptor);
  ZS_RETURN_IF_ERROR(file.Write(absl::StrCat(kOpening, Metadata(0, 0, "process_name", "name", "\"rank 0\""))));
  return file;
}

TraceFile::~TraceFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

TraceFile::TraceFile(TraceFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      end_(other.end_),
      origin_ns_(other.origin_ns_) {}

// The text, then the closing brackets, over which the next text goes.
absl::Status TraceFile::Write(const std::string& text) {
  const std::string all = text + kClosing;
  size_t done = 0;
  while (done < all.size()) {
    const ssize_t written = pwrite(descriptor_, all.data() + done, all.size() - done, end_ + static_cast<int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the trace '", path_, "'"));
    done += static_cast<size_t>(written);
  }
  end_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

absl::Status TraceFile::AddRank(const TraceRank& rank, std::span<const device::Span> spans, int64_t now_ns) {
  if (origin_ns_ < 0) {
    origin_ns_ = now_ns;
    for (const Span& span : spans) {
      if (span.begun_ns != 0) origin_ns_ = std::min(origin_ns_, span.begun_ns - rank.clock_ahead_ns);
    }
  }
  const std::string name = absl::StrCat("rank ", rank.rank, rank.host.empty() ? "" : absl::StrCat(" (", rank.host, ")"));
  std::string text =
      absl::StrCat(",\n", Metadata(rank.rank, 0, "process_name", "name", Quoted(name)), ",\n",
                   Metadata(rank.rank, 0, "process_sort_index", "sort_index", absl::StrCat(rank.rank)), ",\n",
                   Metadata(rank.rank, 0, "zeroshard_rank", "clock_ahead_ns",
                            absl::StrCat(rank.clock_ahead_ns, ", \"pid\": ", rank.pid, ", \"dropped\": ", rank.dropped)));
  std::array<bool, 256> named = {};
  const Events events(rank, origin_ns_, now_ns);
  for (const Span& span : spans) {
    if (span.begun_ns == 0) continue;
    if (!std::exchange(named[span.track], true)) {
      absl::StrAppend(&text, ",\n", Metadata(rank.rank, span.track, "thread_name", "name", Quoted(NameOfTrack(span))));
    }
    absl::StrAppend(&text, ",\n", events.Event(span));
    if (text.size() < kPiece) continue;
    ZS_RETURN_IF_ERROR(Write(text));
    text.clear();
  }
  return Write(text);
}

absl::Status TraceFile::Close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0) return absl::OkStatus();
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
  if (synced && close(descriptor) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write the trace '", path_, "'"));
}

}  // namespace zeroshard::trainer
