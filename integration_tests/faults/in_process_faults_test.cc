#include "zeroshard/integration_tests/faults/fault_suite.h"

namespace zeroshard::integration_tests {
namespace {

const std::vector<Carrier> kCarriers = {{.name = "InProcess", .backend = "in_process", .processes = false}};

INSTANTIATE_TEST_SUITE_P(InProcess, FaultTest, Faults(kCarriers), FaultName);
INSTANTIATE_TEST_SUITE_P(InProcess, ChurnTest, ::testing::ValuesIn(kCarriers), ChurnName);

}  // namespace
}  // namespace zeroshard::integration_tests
