#include "zeroshard/trainer/overlap.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace zeroshard::trainer {
namespace {

using Json = nlohmann::json;
using Key = std::pair<int, int64_t>;  // a group, and a sequence number

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

// When the last rank began each collective.
using Begun = std::map<Key, double>;

// One rank's side of the trace.
class RankTimeline {
 public:
  void Add(const TraceSpan& span) {
    begin_ = std::min(begin_, span.begin_us);
    end_ = std::max(end_, span.end_us);
    if (span.category == "collective") collectives_.push_back(span);
    if (IsWait(span)) waits_.push_back(span);
  }
  // All are added.
  void Finish() {
    std::sort(waits_.begin(), waits_.end(), [](const TraceSpan& a, const TraceSpan& b) { return a.begin_us < b.begin_us; });
    std::vector<Interval> waiting;
    for (const TraceSpan& wait : waits_) waiting.push_back({wait.begin_us, wait.end_us});
    waiting_ = Union(std::move(waiting));
    double before = 0;
    for (const Interval& w : waiting_) {
      waited_before_.push_back(before);
      before += w.end - w.begin;
    }
  }

  const std::vector<TraceSpan>& collectives() const { return collectives_; }
  const std::vector<TraceSpan>& waits() const { return waits_; }
  double begin() const { return begin_; }

  // Computing done by the time `at`: all that was not waiting.
  double Progress(double at) const {
    const double since = std::max(0.0, at - begin_);
    const auto next =
        std::partition_point(waiting_.begin(), waiting_.end(), [at](const Interval& w) { return w.begin < at; });
    if (next == waiting_.begin()) return since;
    const Interval& last = *std::prev(next);
    return since - waited_before_[next - waiting_.begin() - 1] - (std::min(last.end, at) - last.begin);
  }

  RankOverlap Measure(int rank, const Begun& begun) const {
    std::vector<Interval> transfers;
    for (const TraceSpan& c : collectives_) transfers.push_back(TransferOf(c, begun));
    double communication = 0;
    for (const Interval& t : transfers) communication += t.end - t.begin;
    return {.rank = rank,
            .wall_s = (end_ - begin_) / kSecond,
            .waiting_s = Length(waiting_) / kSecond,
            .communication_s = communication / kSecond,
            .exposed_s = Common(Union(std::move(transfers)), waiting_) / kSecond};
  }

  static Interval TransferOf(const TraceSpan& c, const Begun& begun) {
    const double last = begun.at({c.track, c.sequence});
    return {std::min(std::max(c.begin_us, last), c.end_us), c.end_us};
  }

 private:
  double begin_ = 1e300;
  double end_ = -1e300;
  std::vector<TraceSpan> collectives_;
  std::vector<TraceSpan> waits_;
  std::vector<Interval> waiting_;
  std::vector<double> waited_before_;  // each of them
};

// All ranks anew, as early as their dependencies let them: see "Note: What the critical path allows".
class Replay {
 public:
  Replay(const std::map<int, RankTimeline>& ranks, const Begun& begun) {
    for (const auto& [rank, timeline] : ranks) {
      ranks_[rank].timeline = &timeline;
      for (const TraceSpan& c : timeline.collectives()) {
        const Interval transfer = RankTimeline::TransferOf(c, begun);
        const double ready = c.ready_us < 0 ? 0 : timeline.Progress(c.ready_us);
        tracks_[c.track][c.sequence].push_back({rank, ready, transfer.end - transfer.begin});
      }
    }
    while (PlaceTransfers() || PassWaits() || SkipAWait()) {
    }
  }

  double ExposedSeconds(int rank) const {
    const Rank& r = ranks_.at(rank);
    return Common(Union(r.transfers), Union(r.stalls)) / kSecond;
  }

 private:
  struct Part {
    int rank = 0;
    double ready = 0;  // progress of its computing
    double length = 0;
  };
  struct Rank {
    const RankTimeline* timeline = nullptr;
    size_t next_wait = 0;
    std::vector<std::pair<double, double>> stalled;  // {progress, for how long so far}
    std::vector<Interval> stalls, transfers;         // of the new schedule
    std::map<int, double> free;                      // each communicator
    std::map<Key, double> ended;

    bool Waits() const { return next_wait < timeline->waits().size(); }
    double ProgressOfWait() const { return timeline->Progress(timeline->waits()[next_wait].begin_us); }
    double TimeOf(double progress) const {
      const auto next =
          std::partition_point(stalled.begin(), stalled.end(), [&](const auto& stall) { return stall.first < progress; });
      return timeline->begin() + progress + (next == stalled.begin() ? 0 : std::prev(next)->second);
    }
  };

  // Whether it is known on every rank when a collective's inputs are there.
  bool Known(const std::vector<Part>& parts) const {
    return std::all_of(parts.begin(), parts.end(), [this](const Part& part) {
      const Rank& rank = ranks_.at(part.rank);
      return !rank.Waits() || part.ready <= rank.ProgressOfWait();
    });
  }

  bool PlaceTransfers() {
    bool any = false;
    for (auto& [track, collectives] : tracks_) {
      while (!collectives.empty() && Known(collectives.begin()->second)) {
        const auto& [sequence, parts] = *collectives.begin();
        double begin = 0;
        for (const Part& part : parts) {
          Rank& rank = ranks_[part.rank];
          begin = std::max({begin, rank.free[track], rank.TimeOf(part.ready)});
        }
        for (const Part& part : parts) {
          Rank& rank = ranks_[part.rank];
          rank.transfers.push_back({begin, begin + part.length});
          rank.ended[{track, sequence}] = rank.free[track] = begin + part.length;
        }
        collectives.erase(collectives.begin());
        any = true;
      }
    }
    return any;
  }

  bool PassWaits() {
    bool any = false;
    for (auto& [number, rank] : ranks_) {
      for (; rank.Waits(); ++rank.next_wait) {
        const TraceSpan& wait = rank.timeline->waits()[rank.next_wait];
        const auto ended = rank.ended.find({wait.awaited_track, wait.sequence});
        if (ended == rank.ended.end()) {
          const auto track = tracks_.find(wait.awaited_track);
          if (track != tracks_.end() && track->second.count(wait.sequence) > 0) break;
        } else {
          Stall(rank, ended->second);
        }
        any = true;
      }
    }
    return any;
  }

  static void Stall(Rank& rank, double until) {
    const double progress = rank.ProgressOfWait();
    const double so_far = rank.stalled.empty() ? 0 : rank.stalled.back().second;
    const double now = rank.timeline->begin() + progress + so_far;
    if (until <= now) return;
    rank.stalled.push_back({progress, so_far + until - now});
    rank.stalls.push_back({now, until});
  }

  // A trace in which nothing can go on, as where spans were dropped: somebody does not wait.
  bool SkipAWait() {
    for (auto& [number, rank] : ranks_) {
      if (!rank.Waits()) continue;
      ++rank.next_wait;
      return true;
    }
    return false;
  }

  std::map<int, Rank> ranks_;
  std::map<int, std::map<int64_t, std::vector<Part>>> tracks_;  // of each communicator, what is not placed
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
  span.group = args.value("group", "");
  return span;
}

// A rank numbers its communicators as it makes them: its second may be another group than its peer's second. Here a track becomes the
// number of the group, the same on all ranks.
std::vector<TraceSpan> ByGroup(std::vector<TraceSpan> spans) {
  std::map<std::pair<std::string, int>, int> groups;  // by name, or where there is none by track
  std::map<std::pair<int, int>, int> group_of;        // [rank, track]
  for (TraceSpan& span : spans) {
    if (span.category != "collective") continue;
    const int next = static_cast<int>(groups.size());
    const int group = groups.try_emplace({span.group, span.group.empty() ? span.track : 0}, next).first->second;
    span.track = group_of.try_emplace({span.rank, span.track}, group).first->second;
  }
  for (TraceSpan& span : spans) {
    if (!IsWait(span)) continue;
    const auto group = group_of.find({span.rank, span.awaited_track});
    span.awaited_track = group == group_of.end() ? -1 : group->second;
  }
  return spans;
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

std::vector<RankOverlap> AnalyzeOverlap(const std::vector<TraceSpan>& trace) {
  const std::vector<TraceSpan> spans = ByGroup(trace);
  Begun begun;
  std::map<int, RankTimeline> ranks;
  for (const TraceSpan& span : spans) {
    ranks[span.rank].Add(span);
    if (span.category != "collective") continue;
    const auto [at, is_new] = begun.try_emplace({span.track, span.sequence}, span.begin_us);
    if (!is_new) at->second = std::max(at->second, span.begin_us);
  }
  for (auto& [rank, timeline] : ranks) timeline.Finish();
  const Replay replay(ranks, begun);
  std::vector<RankOverlap> overlaps;
  for (const auto& [rank, timeline] : ranks) {
    overlaps.push_back(timeline.Measure(rank, begun));
    overlaps.back().least_exposed_s = replay.ExposedSeconds(rank);
  }
  return overlaps;
}

}  // namespace zeroshard::trainer
