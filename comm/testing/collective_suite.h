// What every backend must do, whatever carries its bytes: one suite, instantiated by each backend's test.
//
// Example: in the backend's test, which links collective_suite,
//   INSTANTIATE_TEST_SUITE_P(Gloo, CollectiveTest, ::testing::Values(GlooBackend()), BackendName);
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "zeroshard/comm/testing/group.h"

namespace zeroshard::comm::testing {

// Results, memory, traffic, order.
class CollectiveTest : public ::testing::TestWithParam<Backend> {};
// What goes wrong, and what everybody is told.
class FailureTest : public ::testing::TestWithParam<Backend> {};

inline std::string BackendName(const ::testing::TestParamInfo<Backend>& info) { return info.param.name; }

}  // namespace zeroshard::comm::testing
