// How much of a run's communication was hidden behind its computing, and how much could have been: read from a trace.
//
// Note: What is measured. Of each rank, over all traced steps together:
//   transfer   a collective from the moment when the last rank had begun it (clocks aligned) to its end on this rank: what its peers
//              come late by is not communication.
//   waiting    the rank's compute stream, or its host thread, stands in a wait for a collective. All other time is computing.
//   communication = the time of all transfers; exposed = the part of it that falls into waiting; hidden = communication - exposed.
//
// Note: What the critical path allows. The same computing and the same transfers, each as long as it was, are run anew on all
// ranks together, as early as their recorded dependencies let them: a transfer begins when on every rank the computing that it
// comes after is done (`ready`: the latest of the events that it was issued to come after) and the transfer before it on its
// communicator has ended (one transfer is what the ranks of one group call by one number); computing stops at a wait until the
// transfer waited for has ended. When a collective was called plays no part: one that was called later than its inputs were
// ready could have been hidden, and counts against the run. The exposed time of that schedule is what no time of calls avoids;
// allowed = communication - it. hidden / allowed is at most about 1; 1 where nothing is allowed.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::vector<TraceSpan> spans, ReadTrace("run.trace.json"));
//   for (const RankOverlap& rank : AnalyzeOverlap(spans)) Print(rank.hidden_of_allowed());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace zeroshard::trainer {

// A span as a trace has it: microseconds on rank 0's clock.
struct TraceSpan {
  int rank = 0;
  int track = 0;
  std::string category;  // device::Name(SpanKind)
  double begin_us = 0;
  double end_us = 0;
  int64_t sequence = 0;
  double ready_us = -1;    // of a collective; -1: it came after nothing
  int awaited_track = 0;   // of a wait
  std::string group = {};  // of a collective: which ranks it is of, where not all
};

// Errors: kNotFound and the like; kInvalidArgument, naming the file, for what is no trace of ours.
absl::StatusOr<std::vector<TraceSpan>> ReadTrace(const std::string& path);

// Seconds of one rank.
struct RankOverlap {
  int rank = 0;
  double wall_s = 0;
  double waiting_s = 0;
  double communication_s = 0;
  double exposed_s = 0;
  double least_exposed_s = 0;  // that the critical path allows

  double hidden_share() const { return communication_s > 0 ? 1 - exposed_s / communication_s : 1; }
  double allowed_share() const { return communication_s > 0 ? 1 - least_exposed_s / communication_s : 1; }
  double hidden_of_allowed() const { return allowed_share() > 0 ? hidden_share() / allowed_share() : 1; }
};

// By rank. Ranks that left no spans are not in it.
std::vector<RankOverlap> AnalyzeOverlap(const std::vector<TraceSpan>& spans);

}  // namespace zeroshard::trainer
