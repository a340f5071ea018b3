// A row of the table of collectives beside their peers: samples of ours and of each peer, taken in turns in one run, and the goals
// that bind them.
//
// Example:
//   Row row{.name = "reduce_scatter 64 MiB", .memory = "registered"};
//   row.us["ours"] = {7100, 7000};
//   row.us["prototype"] = {7000, 6900};
//   row.goals = {{"prototype", 1.2}};
//   std::cout << RowJson(row) << '\n';
#pragma once

#include <map>
#include <string>
#include <vector>

namespace zeroshard::integration_tests {

// Ours takes at most `most` times what the peer takes; "mpi" is the faster of the MPIs; "us": microseconds.
struct Goal {
  std::string peer;
  double most = 1;
};

struct Row {
  std::string name;
  std::string memory = {};  // "registered", "heap"; may be empty
  std::map<std::string, std::vector<double>> us =
      {};  // "ours", "prototype", "open_mpi", "mpich", "floor": a sample each round
  std::vector<Goal> goals = {};
  std::string left_out = {};  // why there is no row
};

// Of at least one sample.
double Least(const std::vector<double>& samples);
double Median(std::vector<double> samples);

// One object, no newline: for each column the least and the median, and for each goal the ratio, least by least and the median of
// the rounds' ratios, and whether the first meets it (what else runs on the machine only adds): null where the peer is not there.
std::string RowJson(const Row& row);

}  // namespace zeroshard::integration_tests
