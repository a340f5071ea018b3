// On device/cuda's doubles, whose products have a choice.
#include "zeroshard/trainer/product_choices.h"

#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cuda/doubles/test_cuda_device.h"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr device::GemmSpec kProduct{.m = 4, .k = 8, .n = 2}, kOther{.m = 4, .k = 8, .n = 3};

void OnTwoGpus(const std::function<void(comm::Communicator&)>& rank) {
  zero::testing::RunOnRanks({.world_size = 2, .make_device = [] { return device::cuda::doubles::MakeTestCudaDevice(); }},
                            rank);
}

// What `text` has become once each product of it runs by the double's other algorithm.
std::string Other(std::string text) {
  for (size_t tab = text.find('\t'); tab != text.npos; tab = text.find('\t', tab + 1)) text[tab + 18] = '2';
  return text;
}

TEST(ProductChoices, AreRankZerosOnEveryRank) {
  OnTwoGpus([](comm::Communicator& communicator) {
    device::Device& device = communicator.device();
    const auto gemm = device.PlanGemm(kProduct);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const std::string usual = device.ProductChoices(), other = Other(usual);
    ASSERT_NE(other, usual);
    ASSERT_TRUE(device.TakeProductChoices(communicator.rank() == 0 ? other : usual).ok());
    const absl::Status shared = ShareProductChoices(communicator, "");
    EXPECT_TRUE(shared.ok()) << shared;
    EXPECT_EQ(device.ProductChoices(), other);
  });
}

// As of matrices that one rank alone has: Muon's.
TEST(ProductChoices, OfAProductThatRankZeroHasNotAreTheNextRanks) {
  std::array<std::string, 2> all;
  OnTwoGpus([&](comm::Communicator& communicator) {
    device::Device& device = communicator.device();
    const auto gemm = device.PlanGemm(communicator.rank() == 0 ? kProduct : kOther);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const absl::Status shared = ShareProductChoices(communicator, "");
    EXPECT_TRUE(shared.ok()) << shared;
    all[static_cast<size_t>(communicator.rank())] = device.ProductChoices();
  });
  EXPECT_EQ(all[0], all[1]);
  EXPECT_THAT(all[0], AllOf(HasSubstr("[8 x 2]"), HasSubstr("[8 x 3]")));
}

TEST(ProductChoices, OfAnEarlierRunAreEveryRanks) {
  OnTwoGpus([](comm::Communicator& communicator) {
    device::Device& device = communicator.device();
    const auto gemm = device.PlanGemm(kProduct);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const std::string saved = Other(device.ProductChoices());
    const absl::Status shared = ShareProductChoices(communicator, communicator.rank() == 0 ? saved : "");
    EXPECT_TRUE(shared.ok()) << shared;
    EXPECT_EQ(device.ProductChoices(), saved);
  });
}

TEST(ProductChoices, OfAnotherCardOrModelAreRefusedAsInput) {
  OnTwoGpus([](comm::Communicator& communicator) {
    device::Device& device = communicator.device();
    ASSERT_TRUE(device.PlanGemm(kProduct).ok());
    const std::string own = device.ProductChoices(), library = own.substr(0, own.find('\n') + 1);
    for (const auto& [saved, words] :
         {std::pair<std::string, std::string>("cuBLASLt 1 on sm_80\n", "chosen for cuBLASLt 1 on sm_80"),
          {library, "no algorithm was chosen for the product [4 x 8] x [8 x 2]"}}) {
      const absl::Status shared = ShareProductChoices(communicator, saved);
      EXPECT_TRUE(absl::IsInvalidArgument(shared)) << shared;
      EXPECT_THAT(std::string(shared.message()), AllOf(HasSubstr("--product_choices: "), HasSubstr(words)));
    }
  });
}

TEST(ProductChoices, OfCoresAreNone) {
  zero::testing::RunOnRanks({.world_size = 2}, [](comm::Communicator& communicator) {
    EXPECT_EQ(communicator.device().ProductChoices(), "");
    EXPECT_TRUE(ShareProductChoices(communicator, "").ok());
    EXPECT_EQ(communicator.wire().sent_bytes(comm::Traffic::kControl), 0);
    EXPECT_TRUE(absl::IsFailedPrecondition(ShareProductChoices(communicator, "cuBLASLt 1 on sm_80\n")));
  });
}

TEST(ProductChoicesFile, GivesWhatWasWrittenOrSaysWhatIsWrong) {
  const std::string path = ::testing::TempDir() + "/run.products", choices = "cuBLASLt 1 on sm_80\nproduct\t00ff\n";
  ASSERT_TRUE(WriteProductChoices(path, choices).ok());
  EXPECT_EQ(ReadProductChoices(path).value(), choices);
  std::ifstream file(path);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(whole, StartsWith("cuBLASLt 1 on sm_80\n"));
  std::string garbled = whole;
  garbled[whole.find("00ff")] = '1';
  for (const std::string& bad : {garbled, choices, whole.substr(0, whole.size() - 2), whole + "more\n", std::string()}) {
    std::ofstream(path) << bad;
    const absl::Status read = ReadProductChoices(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(read)) << read;
    EXPECT_THAT(std::string(read.message()), AllOf(HasSubstr(path), HasSubstr("checksum"))) << bad;
  }
  EXPECT_TRUE(absl::IsNotFound(ReadProductChoices(path + ".none").status()));
}

}  // namespace
}  // namespace zeroshard::trainer
