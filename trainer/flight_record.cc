#include "zeroshard/trainer/flight_record.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/output_file.h"

namespace zeroshard::trainer {
namespace {

using device::Span;
using Json = nlohmann::ordered_json;

Json Time(int64_t time_ns) { return time_ns == 0 ? Json(nullptr) : Json(time_ns); }

double Microseconds(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) / 1000; }

const char* State(const Span& span) {
  if (span.ended_ns != 0) return "ended";
  return span.begun_ns != 0 ? "begun" : "issued";
}

Json OfOperation(const Span& s, int64_t now_ns) {
  const int64_t begun = s.begun_ns != 0 ? s.begun_ns : s.ended_ns != 0 ? s.ended_ns : now_ns;
  return {{"sequence", s.sequence},
          {"group", s.group[0] == '\0' ? "all ranks" : std::string(device::View(s.group))},
          {"kind", std::string(device::View(s.name))},
          {"dtype", std::string(device::Name(s.dtype))},
          {"count", s.count},
          {"bytes", s.bytes},
          {"label", std::string(device::View(s.label))},
          {"traffic", s.control ? "control" : "data"},
          {"step", s.step < 0 ? Json(nullptr) : Json(s.step)},
          {"state", State(s)},
          {"issued_ns", s.issued_ns},
          {"begun_ns", Time(s.begun_ns)},
          {"ended_ns", Time(s.ended_ns)},
          {"queued_us", Microseconds(s.issued_ns, begun)},
          {"ran_us", Microseconds(begun, s.ended_ns != 0 ? s.ended_ns : now_ns)}};
}

// Labels and hosts are bytes of somebody else's choice.
std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string FormatFlightRecord(const FlightHeader& header, std::span<const Span> operations) {
  std::string text = Line({{"rank", header.rank},
                           {"world_size", header.world_size},
                           {"host", header.host},
                           {"pid", header.pid},
                           {"cause", header.cause},
                           {"time", header.time_s},
                           {"now_ns", header.now_ns}});
  for (const Span& span : operations) text += Line(OfOperation(span, header.now_ns));
  return text;
}

absl::StatusOr<std::string> WriteFlightRecord(comm::Communicator& communicator, const std::string& folder,
                                              const absl::Status& cause) {
  const std::vector<Span> operations = communicator.device().recorder().Flight();
  std::array<char, 64> host = {};
  gethostname(host.data(), host.size() - 1);
  const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
  const FlightHeader header = {.rank = communicator.rank(),
                               .world_size = communicator.world_size(),
                               .host = host.data(),
                               .pid = getpid(),
                               .cause = std::string(cause.message()),
                               .time_s = time.count(),
                               .now_ns = device::NowNs()};
  const std::string path = absl::StrCat(folder, "/flight_record.rank-", header.rank, ".jsonl");
  ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path));
  ZS_RETURN_IF_ERROR(out.Append(FormatFlightRecord(header, operations)));
  ZS_RETURN_IF_ERROR(out.Close());
  return path;
}

}  // namespace zeroshard::trainer
