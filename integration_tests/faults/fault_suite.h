// What every host backend must do when ranks die, stand still or disagree: one suite, instantiated by each backend's test.
//
// A seed decides what happens, to which rank and at which operation, and is part of the test's name. ZS_SEEDS in the
// environment sets how many there are.
//
// Example: in the backend's test, which links fault_suite,
//   INSTANTIATE_TEST_SUITE_P(Gloo, FaultTest, Faults({{.name = "Gloo", .backend = "gloo"}}), FaultName);
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/integration_tests/faults/ranks.h"

namespace zeroshard::integration_tests {

struct Carrier {
  std::string name;  // of letters and digits
  std::string backend;
  std::vector<std::pair<std::string, std::string>> environment = {};
  bool processes = true;  // else ranks are threads of one, and what befalls them is injected
  int64_t notices_death_in_ms = 1000;
  int64_t descriptors_a_peer = 0;
  bool last_is_exact =
      false;  // what a rank did last can be read when it is gone; else as it said some tenths of a second before

  std::unique_ptr<Ranks> MakeRanks() const;
};
inline void PrintTo(const Carrier& carrier, std::ostream* out) { *out << carrier.name; }

// Deaths, freezes, disagreements, aborts; by seed.
class FaultTest : public ::testing::TestWithParam<std::tuple<Carrier, int>> {};
// Communicators that are made and dropped, again and again, or that cannot be made.
class ChurnTest : public ::testing::TestWithParam<Carrier> {};

// ZS_SEEDS, or `usual`.
int Seeds(int usual);

inline auto Faults(const std::vector<Carrier>& carriers) {
  return ::testing::Combine(::testing::ValuesIn(carriers), ::testing::Range(0, Seeds(2)));
}
inline std::string FaultName(const ::testing::TestParamInfo<std::tuple<Carrier, int>>& info) {
  return std::get<0>(info.param).name + "_seed" + std::to_string(std::get<1>(info.param));
}

inline std::string ChurnName(const ::testing::TestParamInfo<Carrier>& info) { return info.param.name; }

}  // namespace zeroshard::integration_tests
