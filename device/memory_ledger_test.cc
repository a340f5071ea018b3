#include "zeroshard/device/memory_ledger.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

TEST(MemoryLedger, KeepsNowPeakAndPredictedOfEachUse) {
  MemoryLedger ledger;
  ledger.Predict(Use::kMoments, 100);
  ledger.Charge(Use::kMoments, 80);
  ledger.Charge(Use::kMoments, 40);
  ledger.Credit(Use::kMoments, 80);
  EXPECT_EQ(ledger.now(Use::kMoments), 40);
  EXPECT_EQ(ledger.peak(Use::kMoments), 120);
  EXPECT_EQ(ledger.predicted(Use::kMoments), 100);
  EXPECT_EQ(ledger.now(Use::kParameters), 0);
  EXPECT_EQ(ledger.charges(), 2);
}

TEST(MemoryLedger, CountsBytesAboveThirtyTwoBits) {
  MemoryLedger ledger;
  ledger.Charge(Use::kParameters, int64_t{12} << 32);
  EXPECT_EQ(ledger.peak(Use::kParameters), int64_t{12} << 32);
}

TEST(MemoryLedger, LosesNothingBetweenThreads) {
  MemoryLedger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) {
        ledger.Charge(Use::kData, 3);
        ledger.Credit(Use::kData, 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.now(Use::kData), 40000);
  EXPECT_GE(ledger.peak(Use::kData), 40000);
  EXPECT_EQ(ledger.charges(), 40000);
}

TEST(MemoryLedger, TableNamesEveryUse) {
  const std::string table = MemoryLedger().Table();
  for (int i = 0; i < kUses; ++i) EXPECT_NE(table.find(Name(static_cast<Use>(i))), std::string::npos) << table;
}

}  // namespace
}  // namespace zeroshard::device
