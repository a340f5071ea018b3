#include "zeroshard/backends/ucx/ucx_networks.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/network_address.h"
#include "zeroshard/comm/store_memory.h"

namespace zeroshard::backends {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

// What each of two ranks chooses on this host, whose lines go to the peer at these addresses.
std::vector<UcxNetworks> Choose(const std::vector<std::string>& peer_as_seen_by) {
  comm::MemoryStore store;
  std::vector<UcxNetworks> chosen(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto here = static_cast<size_t>(rank);
      LineEnds ends = {.interfaces = {"lo"}, .peers = {"", ""}};
      ends.peers[1 - here] = peer_as_seen_by[here];
      const auto networks = ChooseNetworks(ends, {.store = &store,
                                                  .rank = rank,
                                                  .world_size = 2,
                                                  .deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60)});
      ASSERT_TRUE(networks.ok()) << networks.status();
      chosen[here] = *networks;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return chosen;
}

TEST(UcxNetworks, LetInTheAddressesOfTheRanksHosts) {
  const auto here = comm::ListAddresses();
  ASSERT_TRUE(here.ok()) << here.status();
  for (const UcxNetworks& networks : Choose({"127.0.0.1", "127.0.0.1"})) {
    EXPECT_EQ(networks.families, "inet,inet6");
    for (const comm::NetworkAddress& address : *here) EXPECT_THAT(networks.sources, Contains(address.text));
  }
}

// Behind a router that rewrites addresses nobody knows where a peer's next connection comes from.
TEST(UcxNetworks, LetInAnybodyWhereAPeerIsSeenAtAnAddressThatItsHostDoesNotHave) {
  const std::vector<UcxNetworks> chosen = Choose({"203.0.113.7", "127.0.0.1"});
  EXPECT_THAT(chosen[0].sources, IsEmpty());
  EXPECT_THAT(chosen[1].sources, Contains("127.0.0.1"));
}

}  // namespace
}  // namespace zeroshard::backends
