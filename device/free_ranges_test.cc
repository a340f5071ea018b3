#include "zeroshard/device/free_ranges.h"

#include <optional>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

TEST(FreeRanges, GivesTheFirstOfTheSmallestThatSuffice) {
  FreeRanges free;
  EXPECT_EQ(free.Take(1), std::nullopt);
  free.AddPiece(1000, 100);
  free.AddPiece(2000, 40);
  free.AddPiece(3000, 40);
  EXPECT_EQ(free.Take(40), 2000);
  EXPECT_EQ(free.Take(30), 3000);
  EXPECT_EQ(free.Take(30), 1000);
  EXPECT_EQ(free.Take(71), std::nullopt);
  EXPECT_EQ(free.Take(70), 1030);
}

TEST(FreeRanges, JoinsNeighboursOfOnePieceAlone) {
  FreeRanges free;
  free.AddPiece(1000, 100);
  free.AddPiece(1100, 100);
  EXPECT_EQ(free.Take(200), std::nullopt);
  for (const uint64_t want : {1000, 1030, 1060}) EXPECT_EQ(free.Take(30), want);
  EXPECT_EQ(free.Take(100), 1100);
  free.Give(1000, 30);
  free.Give(1060, 30);
  EXPECT_EQ(free.FreePieceAt(1050), std::nullopt);
  free.Give(1030, 30);
  EXPECT_EQ(free.FreePieceAt(1050), 1000);
  free.Give(1100, 100);
  EXPECT_EQ(free.Take(101), std::nullopt);
  EXPECT_EQ(free.Take(100), 1000);
}

TEST(FreeRanges, ForgetsAPiece) {
  FreeRanges free;
  EXPECT_EQ(free.FreePieceAt(1000), std::nullopt);
  free.AddPiece(1000, 100);
  free.AddPiece(2000, 100);
  free.DropPiece(1000);
  EXPECT_EQ(free.Take(100), 2000);
  EXPECT_EQ(free.Take(100), std::nullopt);
  EXPECT_EQ(free.pieces().size(), 1u);
}

}  // namespace
}  // namespace zeroshard::device
