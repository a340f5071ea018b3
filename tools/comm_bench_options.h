// What tools:comm_bench measures: which collectives, at which sizes, in which memory.
//
// Example:
//   CommBenchFlags flags;
//   ZS_RETURN_IF_ERROR(flags.Parse(argc, argv));
//   ZS_ASSIGN_OR_RETURN(CommBenchOptions options, flags.Options());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/comm/operation.h"
#include "zeroshard/device/dtype.h"
#include "zeroshard/tools/flags/flag_set.h"
#include "zeroshard/tools/job_flags.h"

namespace zeroshard::tools {

struct CommBenchOptions {
  std::vector<comm::OpKind> ops;
  std::vector<int64_t> sizes;  // bytes of the whole buffer: what all-gather gives, what reduce-scatter takes
  device::DType dtype = device::DType::kFloat32;
  bool registered = true;  // memory of Communicator::Allocate, not the device's
  bool in_place = true;
  int64_t iterations = 0;  // 0: by size
  std::string json_path;   // "-": the standard output; empty: none
};

class CommBenchFlags {
 public:
  CommBenchFlags();

  // Errors: see FlagSet::Parse; positional arguments.
  absl::Status Parse(int argc, const char* const* argv);
  const FlagSet& set() const { return set_; }
  absl::StatusOr<JobPlan> Plan(int argc, const char* const* argv) const;
  // Errors: kInvalidArgument: an unknown operation, with the nearest; a size that is none; a dtype that cannot be reduced; a file
  // that cannot be written.
  absl::StatusOr<CommBenchOptions> Options() const;

 private:
  FlagSet set_;
  JobFlags job_;
  std::string ops_ = "reduce_scatter,all_gather,all_reduce,reduce,broadcast,barrier";
  std::string sizes_ = "4,1048576,67108864";
  std::string dtype_ = "fp32";
  std::string memory_ = "registered";
  bool in_place_ = true;
  int64_t iterations_ = 0;
  std::string json_;
};

}  // namespace zeroshard::tools
