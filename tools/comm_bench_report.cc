#include "zeroshard/tools/comm_bench_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace zeroshard::tools {

double AlgorithmBandwidth(const CommBenchResult& result) {
  if (result.us_median <= 0) return 0;
  return static_cast<double>(result.elements * SizeOf(result.dtype)) / (result.us_median * 1e3);
}

double BusBandwidth(const CommBenchResult& result) {
  const double n = result.world_size;
  switch (result.op) {
    case comm::OpKind::kAllReduce:
      return AlgorithmBandwidth(result) * 2 * (n - 1) / n;
    case comm::OpKind::kReduceScatter:
    case comm::OpKind::kAllGather:
      return AlgorithmBandwidth(result) * (n - 1) / n;
    default:
      return AlgorithmBandwidth(result);
  }
}

std::string CommBenchOpName(comm::OpKind op) {
  std::string name(comm::Name(op));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string CommBenchHeading(const CommBenchResult& any) {
  return absl::StrCat(
      absl::StrFormat("# %s, %d ranks, %s memory, %s; times in microseconds, of the slowest rank; bandwidths in GB/s\n",
                      any.backend, any.world_size, any.registered ? "registered" : "heap",
                      any.in_place ? "in place" : "not in place"),
      absl::StrFormat("#%15s %12s %12s %6s %10s %10s %10s %8s %8s %8s\n", "op", "bytes", "elements", "dtype", "min",
                      "median", "max", "algbw", "busbw", "verified"));
}

std::string CommBenchRow(const CommBenchResult& result) {
  return absl::StrFormat("%16s %12d %12d %6s %10.2f %10.2f %10.2f %8.2f %8.2f %8s\n", CommBenchOpName(result.op),
                         result.bytes, result.elements, std::string(device::Name(result.dtype)), result.us_min,
                         result.us_median, result.us_max, AlgorithmBandwidth(result), BusBandwidth(result),
                         result.verified ? "yes" : "NO");
}

std::string CommBenchJson(const CommBenchResult& result) {
  const nlohmann::ordered_json object = {{"op", CommBenchOpName(result.op)},
                                         {"bytes", result.bytes},
                                         {"in_place", result.in_place},
                                         {"us_min", result.us_min},
                                         {"us_median", result.us_median},
                                         {"us_max", result.us_max},
                                         {"algbw_GBps", AlgorithmBandwidth(result)},
                                         {"busbw_GBps", BusBandwidth(result)},
                                         {"verified", result.verified},
                                         {"backend", result.backend},
                                         {"nproc", result.world_size},
                                         {"dtype", std::string(device::Name(result.dtype))},
                                         {"memory", result.registered ? "registered" : "heap"},
                                         {"elements", result.elements},
                                         {"iterations", result.iterations}};
  return object.dump();
}

}  // namespace zeroshard::tools
