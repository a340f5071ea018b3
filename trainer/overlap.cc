#include "zeroshard/trainer/overlap.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace zeroshard::trainer {
namespace {

using Json = nlohmann::json;
using Key = std::pair<int, int64_t>;  // a communicator's track, and a sequence number

constexpr double kSecond = 1e6;  // microseconds

struct Interval {
  double begin = 0;
  double end = 0;
};

// Sorted, and none touches the next.
std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> united;
  for (const Interval& i : intervals) {
    if (!united.empty() && i.begin <= united.back().end) {
      united.back().end = std::max(united.back().end, i.end);
    } else if (i.end > i.begin) {
      united.push_back(i);
    }
  }
  return united;
}

double Length(const std::vector<Interval>& united) {
  double length = 0;
  for (const Interval& i : united) length += i.end - i.begin;
  return length;
}

// Of what lies in both.
double Common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double length = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    length += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return length;
}

bool IsWait(const TraceSpan& span) { return span.category == "wait" || span.category == "host wait"; }

// One rank's side of the trace.
class RankTimeline {
 public:
  void Add(const TraceSpan& span) {
    begin_ = std::min(begin_, span.begin_us);
    end_ = std::max(end_, span.end_us);
    if (span.category == "collective") collectives_.push_back(span);
    if (IsWait(span)) waits_.push_back(span);
  }

  // `begun`: when the last rank began each collective.
  RankOverlap Analyze(int rank, const std::map<Key, double>& begun) {
    std::vector<Interval> transfers, waiting;
    for (const TraceSpan& c : collectives_) transfers.push_back(TransferOf(c, begun));
    for (const TraceSpan& wait : waits_) waiting.push_back({wait.begin_us, wait.end_us});
    double communication = 0;
    for (const Interval& t : transfers) communication += t.end - t.begin;
    waiting_ = Union(waiting);
    return {.rank = rank,
            .wall_s = (end_ - begin_) / kSecond,
            .waiting_s = Length(waiting_) / kSecond,
            .communication_s = communication / kSecond,
            .exposed_s = Common(Union(transfers), waiting_) / kSecond,
            .least_exposed_s = LeastStall(begun) / kSecond};
  }

 private:
  static Interval TransferOf(const TraceSpan& c, const std::map<Key, double>& begun) {
    const double last = begun.at({c.track, c.sequence});
    return {std::min(std::max(c.begin_us, last), c.end_us), c.end_us};
  }

  // Computing done by the time `at`: all that was not waiting.
  double Progress(double at) const {
    double progress = std::max(0.0, at - begin_);
    for (const Interval& w : waiting_) {
      if (w.begin >= at) break;
      progress -= std::min(w.end, at) - w.begin;
    }
    return progress;
  }

  // See "Note: What the critical path allows".
  double LeastStall(const std::map<Key, double>& begun) {
    std::sort(collectives_.begin(), collectives_.end(),
              [](const TraceSpan& a, const TraceSpan& b) { return a.sequence < b.sequence; });
    std::sort(waits_.begin(), waits_.end(), [](const TraceSpan& a, const TraceSpan& b) { return a.begin_us < b.begin_us; });
    std::map<Key, double> ended;   // in the new schedule
    std::map<int, double> free;    // each communicator
    std::map<int, size_t> next;    // of each communicator's collectives, the first that is not placed
    std::vector<Interval> stalls;  // {progress, length}
    double stalled = 0;
    std::map<int, std::vector<const TraceSpan*>> of_track;
    for (const TraceSpan& c : collectives_) of_track[c.track].push_back(&c);
    const auto time_of = [&](double progress) {
      double time = progress;
      for (const Interval& stall : stalls) time += stall.begin < progress ? stall.end : 0;
      return time;
    };
    for (const TraceSpan& wait : waits_) {
      const auto track = of_track.find(wait.awaited_track);
      if (track == of_track.end()) continue;
      for (size_t& i = next[wait.awaited_track]; i < track->second.size(); ++i) {
        const TraceSpan& c = *track->second[i];
        if (c.sequence > wait.sequence) break;
        const Interval transfer = TransferOf(c, begun);
        const double ready = c.ready_us < 0 ? 0 : time_of(Progress(c.ready_us));
        double& end = free[c.track];
        end = std::max(end, ready) + transfer.end - transfer.begin;
        ended[{c.track, c.sequence}] = end;
      }
      const auto end = ended.find({wait.awaited_track, wait.sequence});
      if (end == ended.end()) continue;
      const double progress = Progress(wait.begin_us);
      const double stall = end->second - (progress + stalled);
      if (stall <= 0) continue;
      stalls.push_back({progress, stall});
      stalled += stall;
    }
    return stalled;
  }

  double begin_ = 1e300;
  double end_ = -1e300;
  std::vector<TraceSpan> collectives_;
  std::vector<TraceSpan> waits_;
  std::vector<Interval> waiting_;
};

TraceSpan SpanOf(const Json& event) {
  const Json args = event.value("args", Json::object());
  TraceSpan span;
  span.rank = event.value("pid", 0);
  span.track = event.value("tid", 0);
  span.category = event.value("cat", "");
  span.begin_us = event.value("ts", 0.0);
  span.end_us = span.begin_us + event.value("dur", 0.0);
  span.sequence = args.value("sequence", int64_t{0});
  span.ready_us = args.value("ready", -1.0);
  span.awaited_track = args.value("for_tid", 0);
  return span;
}

}  // namespace

absl::StatusOr<std::vector<TraceSpan>> ReadTrace(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read the trace '", path, "'"));
  const Json trace = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto bad = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no trace that --trace=FILE wrote: ", why));
  };
  if (trace.is_discarded()) return bad("it is not JSON");
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
    return bad("it has no list traceEvents");
  }
  std::vector<TraceSpan> spans;
  try {
    for (const Json& event : trace["traceEvents"]) {
      if (event.is_object() && event.value("ph", "") == "X") spans.push_back(SpanOf(event));
    }
  } catch (const Json::exception&) {  // a number that is text, and the like
    return bad("an event's fields are not of their types");
  }
  return spans;
}

std::vector<RankOverlap> AnalyzeOverlap(const std::vector<TraceSpan>& spans) {
  std::map<Key, double> begun;
  std::map<int, RankTimeline> ranks;
  for (const TraceSpan& span : spans) {
    ranks[span.rank].Add(span);
    if (span.category != "collective") continue;
    const auto [at, is_new] = begun.try_emplace({span.track, span.sequence}, span.begin_us);
    if (!is_new) at->second = std::max(at->second, span.begin_us);
  }
  std::vector<RankOverlap> overlaps;
  for (auto& [rank, timeline] : ranks) overlaps.push_back(timeline.Analyze(rank, begun));
  return overlaps;
}

}  // namespace zeroshard::trainer
