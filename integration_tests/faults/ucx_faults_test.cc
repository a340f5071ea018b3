// Over shared memory, and over TCP as between hosts.
#include "zeroshard/integration_tests/faults/fault_suite.h"

namespace zeroshard::integration_tests {
namespace {

const std::vector<Carrier> kCarriers = {
    {.name = "UcxSharedMemory", .backend = "ucx", .notices_death_in_ms = 2000, .last_is_exact = true},
    {.name = "UcxTcp", .backend = "ucx", .environment = {{"UCX_TLS", "tcp"}}, .descriptors_a_peer = 3}};

INSTANTIATE_TEST_SUITE_P(Ucx, FaultTest, Faults(kCarriers), FaultName);
INSTANTIATE_TEST_SUITE_P(Ucx, ChurnTest, ::testing::ValuesIn(kCarriers), ChurnName);

}  // namespace
}  // namespace zeroshard::integration_tests
