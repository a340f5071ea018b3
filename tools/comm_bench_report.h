// What tools:comm_bench tells: a table for people, JSON Lines for programs.
//
// Example:
//   std::cout << CommBenchHeading(options, communicator);
//   std::cout << CommBenchRow(result);
//   file << CommBenchJson(result) << '\n';
#pragma once

#include <cstdint>
#include <string>

#include "zeroshard/comm/operation.h"
#include "zeroshard/device/dtype.h"

namespace zeroshard::tools {

struct CommBenchResult {
  std::string backend;
  int world_size = 1;
  comm::OpKind op = comm::OpKind::kBarrier;
  device::DType dtype = device::DType::kFloat32;
  bool registered = true;
  bool in_place = true;
  int64_t bytes = 0;     // as asked for; 0: a barrier
  int64_t elements = 0;  // of the whole buffer, as it was
  int64_t iterations = 0;
  double us_min = 0;  // of the slowest rank
  double us_median = 0;
  double us_max = 0;
  bool verified = false;
};

// Bytes of the whole buffer by the median time; 10^9 bytes a second.
double AlgorithmBandwidth(const CommBenchResult& result);
// What that asks of each rank's link; comparable between operations and numbers of ranks.
double BusBandwidth(const CommBenchResult& result);

// "all_reduce", as flags write it.
std::string CommBenchOpName(comm::OpKind op);

// Lines that begin with '#'.
std::string CommBenchHeading(const CommBenchResult& any);
std::string CommBenchRow(const CommBenchResult& result);
// One object, no newline.
std::string CommBenchJson(const CommBenchResult& result);

}  // namespace zeroshard::tools
