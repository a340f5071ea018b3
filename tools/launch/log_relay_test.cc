#include "zeroshard/tools/launch/log_relay.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

std::string Shown(const std::function<void(LogRelay&)>& feed, LogRelay::Progress progress = LogRelay::Progress::kLive) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  LogRelay relay(2, ends[1], progress);
  feed(relay);
  relay.End();
  close(ends[1]);
  std::string text(1 << 15, '\0');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return text;
}

TEST(LogRelay, LinesComeWholeAndWithTheirRank) {
  EXPECT_EQ(Shown([](LogRelay& relay) {
              relay.Feed(0, "first ha");
              relay.Feed(1, "other\nand");
              relay.Feed(0, "lf\nsecond\n");
            }),
            "[rank 1] other\n[rank 0] first half\n[rank 0] second\n[rank 1] and\n");
}

TEST(LogRelay, ProgressMakesRoomForLines) {
  EXPECT_EQ(Shown([](LogRelay& relay) {
              relay.Feed(0, "\rstep 1/9\n");
              relay.Feed(1, "hello\n");
            }),
            "\rstep 1/9\033[K\r\033[K[rank 1] hello\nstep 1/9\n");
}

TEST(LogRelay, ProgressIsLinesWhereNobodyLooksOn) {
  EXPECT_EQ(Shown([](LogRelay& relay) { relay.Feed(0, "\rstep 1/9\n\rstep 2/9\n"); }, LogRelay::Progress::kLines),
            "step 1/9\nstep 2/9\n");
}

TEST(LogRelay, ProgressEndsWithALineOfItsOwn) {
  EXPECT_EQ(Shown([](LogRelay& relay) { relay.Feed(0, "\rstep 9/9\n\r\nbye\n"); }), "\rstep 9/9\033[K\n[rank 0] bye\n");
  EXPECT_EQ(Shown([](LogRelay& relay) { relay.Feed(0, "\rstep 9/9\n\r\n"); }, LogRelay::Progress::kLines), "step 9/9\n");
}

TEST(LogRelay, KeepsWhyARankEnds) {
  std::string reason;
  Shown([&](LogRelay& relay) {
    relay.Feed(1, "error: first\nwords\nerror: rank 0 is gone\nmore\n");
    reason = relay.Reason(1);
    EXPECT_EQ(relay.Reason(0), "");
  });
  EXPECT_EQ(reason, "rank 0 is gone");
}

}  // namespace
}  // namespace zeroshard::tools
