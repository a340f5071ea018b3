#include "zeroshard/integration_tests/faults/fault_suite.h"

namespace zeroshard::integration_tests {
namespace {

const std::vector<Carrier> kCarriers = {
    // Gloo's pair, and a line.
    {.name = "Gloo", .backend = "gloo", .descriptors_a_peer = 2}};

INSTANTIATE_TEST_SUITE_P(Gloo, FaultTest, Faults(kCarriers), FaultName);
INSTANTIATE_TEST_SUITE_P(Gloo, ChurnTest, ::testing::ValuesIn(kCarriers), ChurnName);

}  // namespace
}  // namespace zeroshard::integration_tests
