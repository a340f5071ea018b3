#include "zeroshard/tools/launch/blame.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

RankEnd Noticed(int rank, std::string words) { return {.rank = rank, .noticed = true, .words = std::move(words)}; }

int Quoted(const std::vector<RankEnd>& ends) {
  const std::optional<size_t> quoted = RankToQuote(ends);
  return quoted ? ends[*quoted].rank : -1;
}

TEST(WhomBlames, IsThePeerThatFailedFirstNamed) {
  EXPECT_EQ(WhomBlames(0, "rank 0, barrier #4, over gloo: rank 12 gave up: rank 12, barrier #4: rank 3 is missing"), 12);
  EXPECT_EQ(WhomBlames(0, "rank 0, all-reduce #1: rank 2 is gone: its process ended"), 2);
  EXPECT_EQ(WhomBlames(0, "rank 2 does not answer: its process is stopped; rank 1 waits for it"), 2);
  EXPECT_EQ(WhomBlames(1, "rank 1, barrier: rank 0 calls all-reduce, rank 1 calls barrier"), std::nullopt);
  EXPECT_EQ(WhomBlames(1, "rank 1 has left"), std::nullopt) << "itself";
  EXPECT_EQ(WhomBlames(1, "rank x gave up; rank 99999999999999 is gone; rank "), std::nullopt);
  EXPECT_EQ(WhomBlames(1, ""), std::nullopt);
}

TEST(RankToQuote, IsTheOneWithACauseOfItsOwnWheneverItEnded) {
  EXPECT_EQ(Quoted({}), -1);
  EXPECT_EQ(Quoted({Noticed(2, "rank 2: rank 1 is gone"), {.rank = 1, .words = "no memory"}}), 1);
  EXPECT_EQ(Quoted({Noticed(2, "rank 2: rank 1 is gone"), {.rank = 1}, {.rank = 0, .words = "no file"}}), 1)
      << "killed: without words";
}

TEST(RankToQuote, IsTheEndOfTheChainOfBlameWhereAllNoticed) {
  const RankEnd zero = Noticed(0, "rank 0, barrier #4: rank 2 gave up: rank 2, barrier #4: rank 1 gave up: ranks disagree");
  const RankEnd one = Noticed(1, "rank 1, barrier #4: ranks disagree: rank 0 calls barrier, rank 1 calls all-reduce");
  const RankEnd two = Noticed(2, "rank 2, barrier #4: rank 1 gave up: ranks disagree");
  EXPECT_EQ(Quoted({zero, two, one}), 1);
  EXPECT_EQ(Quoted({two, one, zero}), 1);
  EXPECT_EQ(Quoted({one, zero, two}), 1);
}

// Rank 1 was stopped, and ended by us: who missed it is quoted, not who heard of that.
TEST(RankToQuote, EndsAtTheLastThatSaysAnything) {
  const RankEnd heard = Noticed(0, "rank 0, barrier: rank 2 gave up: rank 2, barrier: rank 1 is missing");
  const RankEnd missed = Noticed(2, "rank 2, barrier: rank 1 is missing");
  EXPECT_EQ(Quoted({heard, missed}), 2);
  EXPECT_EQ(Quoted({heard, missed, Noticed(1, "")}), 2);
  EXPECT_EQ(Quoted({Noticed(1, ""), heard, missed}), 2) << "one that says nothing is passed by";
  EXPECT_EQ(Quoted({Noticed(1, ""), Noticed(3, "")}), 1);
}

TEST(RankToQuote, IsTheFirstWhereBlameGoesInARing) {
  const std::vector<RankEnd> ring = {Noticed(1, "rank 0 is gone"), Noticed(0, "rank 1 is gone")};
  EXPECT_EQ(Quoted(ring), 1);
  EXPECT_EQ(Quoted({ring[1], ring[0]}), 0);
}

}  // namespace
}  // namespace zeroshard::tools
