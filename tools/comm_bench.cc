// Measures collectives over a backend: --help lists the flags.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/tools/comm_bench_case.h"
#include "zeroshard/tools/comm_bench_options.h"
#include "zeroshard/tools/comm_bench_report.h"
#include "zeroshard/tools/comm_bench_room.h"
#include "zeroshard/tools/launch/exit_code.h"
#include "zeroshard/tools/launch/interrupt.h"
#include "zeroshard/tools/launch/job.h"
#include "zeroshard/tools/launch/refusal.h"
#include "zeroshard/tools/memory_check.h"

namespace zeroshard::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 5;
// Calls shorter than this are timed so many at a time, lest the clock is measured too.
constexpr double kShortUs = 5;
constexpr int64_t kBatch = 16;
// What a collective at one size takes, about, where nobody says how many iterations.
constexpr double kMostUs = 1e6;
constexpr int64_t kLeastIterations = 5;

int64_t IterationsBySize(int64_t bytes) {
  if (bytes >= int64_t{8} << 20) return 20;
  return bytes >= int64_t{1} << 20 ? 200 : 2000;
}

// Each number of the slowest rank. Collective. As whole picoseconds: NCCL has no maximum of floats (--reduction=native).
absl::Status TakeSlowest(comm::Communicator& communicator, std::vector<double>& us) {
  constexpr double kPsPerUs = 1e6;
  std::vector<int64_t> ps;
  for (const double number : us) ps.push_back(static_cast<int64_t>(std::lround(number * kPsPerUs)));
  device::Device& device = communicator.device();
  const int64_t bytes = static_cast<int64_t>(ps.size() * sizeof(int64_t));
  ZS_ASSIGN_OR_RETURN(const device::Buffer buffer, device.Allocate(bytes, device::Use::kCommunication, "times"));
  const device::Array all = buffer.array(device::DType::kInt64).Slice(0, static_cast<int64_t>(ps.size()));
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  device.CopyFromHost(*stream, ps.data(), all);
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(communicator.AllReduce(all, all, comm::ReduceOp::kMax, {.wait_at_once = true}).Wait());
  device.CopyToHost(*stream, all, ps.data());
  stream->Synchronize();
  for (size_t i = 0; i < us.size(); ++i) us[i] = static_cast<double>(ps[i]) / kPsPerUs;
  return absl::OkStatus();
}

// Microseconds a call, of `calls` calls, `batch` at a time; in order of length.
absl::StatusOr<std::vector<double>> TimeCalls(CommBenchCase& bench, int64_t calls, int64_t batch) {
  std::vector<double> us;
  us.reserve(static_cast<size_t>(calls / batch + 1));
  for (int64_t done = 0; done < calls; done += batch) {
    const int64_t now = std::min(batch, calls - done);
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < now; ++i) ZS_RETURN_IF_ERROR(bench.Run());
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / static_cast<double>(now));
  }
  std::sort(us.begin(), us.end());
  return us;
}

absl::StatusOr<CommBenchResult> Measure(comm::Communicator& communicator, const CommBenchOptions& options, comm::OpKind op,
                                        int64_t bytes, const std::string& backend) {
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<CommBenchCase> bench, CommBenchCase::Create(communicator, options, op, bytes));
  CommBenchResult result;
  result.backend = backend;
  result.world_size = communicator.world_size();
  result.op = op;
  result.dtype = options.dtype;
  result.registered = options.registered;
  result.in_place = options.in_place;
  result.bytes = bytes;
  result.elements = bench->elements();
  ZS_ASSIGN_OR_RETURN(const bool before, bench->Verify());
  ZS_ASSIGN_OR_RETURN(std::vector<double> us, TimeCalls(*bench, kWarmUp, 1));
  std::vector<double> numbers = {us[kWarmUp / 2]};
  ZS_RETURN_IF_ERROR(TakeSlowest(communicator, numbers));
  const int64_t affordable = std::max(kLeastIterations, static_cast<int64_t>(kMostUs / std::max(numbers[0], 0.1)));
  result.iterations = options.iterations > 0 ? options.iterations : std::min(IterationsBySize(bytes), affordable);
  ZS_ASSIGN_OR_RETURN(us, TimeCalls(*bench, result.iterations, numbers[0] < kShortUs ? kBatch : 1));
  numbers = {us.front(), us[us.size() / 2], us.back()};
  ZS_RETURN_IF_ERROR(TakeSlowest(communicator, numbers));
  result.us_min = numbers[0];
  result.us_median = numbers[1];
  result.us_max = numbers[2];
  ZS_ASSIGN_OR_RETURN(const bool after, bench->Verify());
  result.verified = before && after;
  return result;
}

// Where rank 0 writes; the other ranks say nothing.
class Outputs {
 public:
  Outputs(const CommBenchOptions& options, bool speaks) : options_(options), speaks_(speaks) {
    if (speaks_ && !options_.json_path.empty() && options_.json_path != "-") file_.open(options_.json_path, std::ios::trunc);
  }
  void Write(const CommBenchResult& result) {
    if (!speaks_) return;
    if (options_.json_path == "-") {
      std::cout << CommBenchJson(result) << '\n' << std::flush;
      return;
    }
    if (!begun_) std::cout << CommBenchHeading(result);
    begun_ = true;
    std::cout << CommBenchRow(result) << std::flush;
    if (!options_.json_path.empty()) file_ << CommBenchJson(result) << '\n' << std::flush;
  }
  bool failed() const { return !file_ || !std::cout; }

 private:
  const CommBenchOptions& options_;
  const bool speaks_;
  bool begun_ = false;
  std::ofstream file_;
};

absl::StatusOr<int> RunRank(comm::Communicator& communicator, const CommBenchOptions& options, const std::string& backend) {
  Outputs outputs(options, communicator.rank() == 0);
  bool verified = true;
  for (const comm::OpKind op : options.ops) {
    const std::vector<int64_t> none = {0};  // A barrier has no size.
    for (const int64_t bytes : op == comm::OpKind::kBarrier ? none : options.sizes) {
      ZS_ASSIGN_OR_RETURN(const CommBenchResult result, Measure(communicator, options, op, bytes, backend));
      outputs.Write(result);
      verified = verified && result.verified;
    }
  }
  if (!verified && communicator.rank() == 0) std::cerr << "error: a collective gave wrong results\n" << std::flush;
  if (!verified) return kExitBug;
  if (!outputs.failed()) return kExitDone;
  std::cerr << absl::StrCat("error: cannot write --json=", options.json_path, "\n") << std::flush;
  return kExitFile;
}

int Main(int argc, char** argv) {
  ExitOnInterrupts();
  CommBenchFlags flags;
  const absl::Status parsed = flags.Parse(argc, argv);
  if (!parsed.ok()) return Refuse(parsed);
  if (flags.set().help_requested()) {
    std::cout << flags.set().Help() << std::flush;
    return kExitDone;
  }
  const absl::StatusOr<JobPlan> plan = flags.Plan(argc, argv);
  if (!plan.ok()) return Refuse(plan.status());
  const absl::StatusOr<CommBenchOptions> options = flags.Options();
  if (!options.ok()) return Refuse(options.status());
  const std::string backend = plan->options.backend;
  const auto fits = [&](const trainer::Room& room) { return CheckBenchRoom(*options, SurroundingsOf(*plan), room); };
  if (const absl::Status checked = CheckRooms(*plan, fits); !checked.ok()) return Refuse(checked);
  const auto rank_body = [&](comm::Communicator& communicator) { return RunRank(communicator, *options, backend); };
  return RunJob(*plan, rank_body, [&](device::Device& device, int rank) { return CheckCardRoom(device, rank, fits); });
}

}  // namespace
}  // namespace zeroshard::tools

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return zeroshard::tools::Main(argc, argv);
}
