#include "zeroshard/comm/wait_board.h"

#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::comm {
namespace {

TEST(WaitBoard, TellsAGroupOfTheOthers) {
  auto board = std::make_shared<WaitBoard>();
  const WaitPlace asked(board);
  {
    WaitPlace other(board);
    EXPECT_EQ(asked.Elsewhere(), -1);
    other.Set(3);
    EXPECT_EQ(asked.Elsewhere(), 3);
    EXPECT_EQ(other.Elsewhere(), -1);
    other.Set(-1);
    EXPECT_EQ(asked.Elsewhere(), -1);
    other.Set(5);
  }
  EXPECT_EQ(asked.Elsewhere(), -1) << "a group that is gone waits for nobody";
}

TEST(WaitBoard, BearsMoreGroupsThanItHasRoomFor) {
  auto board = std::make_shared<WaitBoard>();
  const WaitPlace asked(board);
  std::vector<std::unique_ptr<WaitPlace>> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(std::make_unique<WaitPlace>(board));
    many.back()->Set(7);
  }
  EXPECT_EQ(asked.Elsewhere(), 7);
  many.clear();
  EXPECT_EQ(asked.Elsewhere(), -1);
  WaitPlace none(nullptr);
  none.Set(1);
  EXPECT_EQ(none.Elsewhere(), -1);
}

}  // namespace
}  // namespace zeroshard::comm
