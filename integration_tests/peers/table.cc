#include "zeroshard/integration_tests/peers/table.h"

#include <algorithm>

#include "nlohmann/json.hpp"

namespace zeroshard::integration_tests {
namespace {

using Json = nlohmann::ordered_json;

// A peer's samples: of "mpi" each round's faster one, of "us" one microsecond a round.
std::vector<double> SamplesOf(const Row& row, const std::string& peer, size_t rounds) {
  if (peer == "us") return std::vector<double>(rounds, 1.0);
  std::vector<double> best;
  for (const auto& [name, samples] : row.us) {
    const bool counts = peer == "mpi" ? name == "open_mpi" || name == "mpich" : name == peer;
    if (!counts || samples.empty()) continue;
    if (best.empty()) best = samples;
    for (size_t i = 0; i < std::min(best.size(), samples.size()); ++i) best[i] = std::min(best[i], samples[i]);
  }
  return best;
}

Json GoalJson(const Row& row, const Goal& goal) {
  Json object = {{"of", goal.peer}, {"at_most", goal.most}};
  const auto ours = row.us.find("ours");
  const std::vector<double> theirs =
      ours == row.us.end() ? std::vector<double>() : SamplesOf(row, goal.peer, ours->second.size());
  if (theirs.empty() || ours->second.empty()) {
    object["met"] = nullptr;
    return object;
  }
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(theirs.size(), ours->second.size()); ++i) ratios.push_back(ours->second[i] / theirs[i]);
  object["by_least"] = Least(ours->second) / Least(theirs);
  object["by_median"] = Median(ratios);
  object["met"] = object["by_least"] <= goal.most;
  return object;
}

}  // namespace

double Least(const std::vector<double>& samples) { return *std::min_element(samples.begin(), samples.end()); }

double Median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

std::string RowJson(const Row& row) {
  Json object = {{"row", row.name}};
  if (!row.memory.empty()) object["memory"] = row.memory;
  if (!row.left_out.empty()) object["left_out"] = row.left_out;
  for (const auto& [name, samples] : row.us) {
    if (!samples.empty()) object[name + "_us"] = {{"least", Least(samples)}, {"median", Median(samples)}};
  }
  object["goals"] = Json::array();
  for (const Goal& goal : row.goals) object["goals"].push_back(GoalJson(row, goal));
  return object.dump();
}

}  // namespace zeroshard::integration_tests
