#include "zeroshard/tools/comm_bench_options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/flags/nearest.h"
#include "zeroshard/tools/flags/user_path.h"
#include "zeroshard/tools/flags/writable.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "MEASURED: collectives and their data";

constexpr char kPurpose[] =
    "Measures collectives: checks what they give, warms up, and times each call on every rank, the slowest rank's times "
    "being\n"
    "told. us_min, us_median and us_max are over iterations (calls below 5 us: sixteen at a time); algbw is bytes by\n"
    "us_median, busbw what that asks of each rank's\n"
    "link: times 2 (N - 1) / N for all_reduce, (N - 1) / N for reduce_scatter and all_gather.";

constexpr int64_t kMostBytes = int64_t{1} << 40;

// As flags write them, in the order of comm::OpKind.
const std::vector<std::string>& OpNames() {
  static const auto& names =
      *new std::vector<std::string>{"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "barrier"};
  return names;
}

absl::StatusOr<comm::OpKind> ParseOp(const std::string& name) {
  const auto found = std::find(OpNames().begin(), OpNames().end(), name);
  if (found != OpNames().end()) return static_cast<comm::OpKind>(found - OpNames().begin());
  return absl::InvalidArgumentError(absl::StrCat("--ops names '", name, "', which is none of ",
                                                 absl::StrJoin(OpNames(), ", "), "; the nearest is ",
                                                 Nearest(name, OpNames())));
}

absl::StatusOr<int64_t> ParseSize(const std::string& text) {
  int64_t bytes = 0;
  if (absl::SimpleAtoi(text, &bytes) && bytes >= 1 && bytes <= kMostBytes) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("--sizes has '", text, "': a size is a whole number of bytes from 1 to ", kMostBytes));
}

}  // namespace

CommBenchFlags::CommBenchFlags() : set_("comm_bench", kPurpose) {
  set_.Text("ops", &ops_,
            {.group = kGroup, .text = "Collectives, separated by commas.", .example = "--ops=reduce_scatter,barrier"});
  set_.Text("sizes", &sizes_,
            {.group = kGroup,
             .text = "Of the whole buffer: what all_gather gives, what reduce_scatter takes. Rounded up to whole parts.",
             .example = "--sizes=4096,1048576",
             .unit = "bytes"});
  set_.Choice(
      "dtype", &dtype_, {"fp32", "fp64", "bf16", "fp16", "int32", "int64", "uint8"},
      {.group = kGroup, .text = "Of the elements; uint8 is only gathered and broadcast.", .example = "--dtype=bf16"});
  set_.Choice("memory", &memory_, {"registered", "heap"},
              {.group = kGroup,
               .text = "registered: as the backend likes it best, shared between ranks where it can be. heap: plain memory.",
               .example = "--memory=heap"});
  set_.Boolean("in_place", &in_place_,
               {.group = kGroup, .text = "Results lie where the inputs were.", .example = "--noin_place"});
  set_.Integer("iterations", &iterations_, {.least = 1, .most = 10'000'000},
               {.group = kGroup,
                .text = "Calls that are timed, of each collective and size.",
                .example = "--iterations=100",
                .default_text = "20 to 2000, by size, about a second at most"});
  set_.Text("json", &json_,
            {.group = kGroup,
             .text = "A file for JSON Lines, one object a line; - is the standard output, in place of the table.",
             .example = "--json=-",
             .default_text = "none"});
  job_.Register(set_);
}

absl::Status CommBenchFlags::Parse(int argc, const char* const* argv) {
  ZS_ASSIGN_OR_RETURN(const std::vector<std::string> rest, set_.Parse(argc - 1, argv + 1));
  if (rest.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", rest[0], "' is no flag: flags are written --name=value; --help lists them"));
}

absl::StatusOr<JobPlan> CommBenchFlags::Plan(int argc, const char* const* argv) const {
  return job_.Plan(set_, "comm_bench", argc, argv);
}

absl::StatusOr<CommBenchOptions> CommBenchFlags::Options() const {
  CommBenchOptions options;
  options.dtype = *device::ParseDType(dtype_);
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(ops_, ','))) {
    ZS_ASSIGN_OR_RETURN(const comm::OpKind op, ParseOp(name));
    if (comm::IsReduction(op) && options.dtype == device::DType::kUint8) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ops=", name, " of --dtype=uint8: uint8 is only gathered and broadcast"));
    }
    options.ops.push_back(op);
  }
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(sizes_, ','))) {
    ZS_ASSIGN_OR_RETURN(const int64_t bytes, ParseSize(text));
    options.sizes.push_back(bytes);
  }
  options.registered = memory_ == "registered";
  options.in_place = in_place_;
  options.iterations = iterations_;
  options.json_path = json_ == "-" ? json_ : UserPath(json_);
  if (!json_.empty() && json_ != "-") ZS_RETURN_IF_ERROR(CheckWritable("json", options.json_path));
  return options;
}

}  // namespace zeroshard::tools
