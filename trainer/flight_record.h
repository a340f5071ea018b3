// The flight record: what a rank's communicators did last, written as JSON Lines when its run dies.
//
// The first line is an object about the rank: rank, world_size, host, pid, cause, time (seconds since 1970), now_ns. Each
// further line is one operation, oldest first: sequence, group ("all ranks", "shard group 0-1", "replicas 0,2"), kind, dtype,
// count, bytes, label, traffic, step, state ("issued", "begun", "ended"), issued_ns, begun_ns, ended_ns (of the clock that
// now_ns is of; null: not yet), queued_us, ran_us (up to now_ns where it has not ended).
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::string path, WriteFlightRecord(communicator, "logs", status));   // "logs/flight_record.rank-3.jsonl"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/span.h"

namespace zeroshard::trainer {

struct FlightHeader {
  int rank = 0;
  int world_size = 1;
  std::string host = {};
  int64_t pid = 0;
  std::string cause = {};
  double time_s = 0;
  int64_t now_ns = 0;
};

std::string FormatFlightRecord(const FlightHeader& header, std::span<const device::Span> operations);

// Not collective. The rank's record, in `folder`, over that of an earlier run; gives the file's path. Errors: the system's.
absl::StatusOr<std::string> WriteFlightRecord(comm::Communicator& communicator, const std::string& folder,
                                              const absl::Status& cause);

// Where the path of a flight record is found in the status that a run ended with: its payload's name.
inline constexpr char kFlightRecordPayload[] = "zeroshard/flight_record";
// What stands between a cause and that path where people read them.
inline constexpr char kLastOperations[] = "; last operations: ";

}  // namespace zeroshard::trainer
