// Sockets' buffers of 4 KiB, and 64 MiB both ways: nobody waits for room that nobody makes. In a network namespace of the
// test's own.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/comm/socket.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/integration_tests/faults/ranks.h"

namespace zeroshard::integration_tests {
namespace {

// Why this process cannot have a network of such sockets; empty where it has one now: a loopback.
std::string Separate() {
  if (unshare(CLONE_NEWNET) != 0) return absl::StrCat("unshare: ", strerror(errno));
  const comm::Socket any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback = {};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(any.get(), SIOCSIFFLAGS, &loopback) != 0) return absl::StrCat("the loopback stays down: ", strerror(errno));
  for (const char* name : {"/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"}) {
    std::ofstream(name) << "4096 4096 4096";
    int64_t least = 0, usual = 0;
    std::ifstream(name) >> least >> usual;
    if (usual != 4096) return absl::StrCat(name, " cannot be written here");
  }
  return "";
}

// Every rank gives 64 MiB and takes as much.
absl::Status Exchange(comm::Communicator& rank, RankReport& report) {
  constexpr int64_t kElements = int64_t{16} << 20;
  ZS_ASSIGN_OR_RETURN(device::Buffer buffer, rank.device().Allocate(8 * kElements, device::Use::kCommunication, "test"));
  const device::Array whole = buffer.array(device::DType::kFloat32);
  auto* const host = static_cast<float*>(rank.device().HostAddress(whole));
  std::fill_n(host + rank.rank() * kElements, kElements, static_cast<float>(rank.rank() + 1));
  ZS_RETURN_IF_ERROR(rank.AllGather(whole.Slice(rank.rank() * kElements, kElements), whole).Wait());
  for (const int part : {0, 1}) {
    if (std::count(host + part * kElements, host + (part + 1) * kElements, static_cast<float>(part + 1)) != kElements) {
      ++report.wrong;
    }
  }
  return rank.Finalize();
}

TEST(SmallBuffers, CarryLargeMessagesBothWays) {
  const std::string why_not = Separate();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  for (const char* backend : {"gloo", "ucx"}) {
    const std::unique_ptr<Ranks> ranks = MakeProcessRanks(backend, {{"UCX_TLS", "tcp"}});
    ranks->Start(2, absl::Seconds(120), &Exchange);
    for (const int rank : {0, 1}) {
      ASSERT_TRUE(ranks->Ended(rank, NowMs() + 120000)) << backend;
      EXPECT_EQ(ranks->report(rank).code, absl::StatusCode::kOk) << ranks->message(rank);
      EXPECT_EQ(ranks->report(rank).wrong, 0) << backend;
    }
  }
}

}  // namespace
}  // namespace zeroshard::integration_tests
