#include "zeroshard/trainer/printable.h"

#include "gtest/gtest.h"

namespace zeroshard::trainer {
namespace {

TEST(Printable, TextStays) { EXPECT_EQ(Printable("caf\xc3\xa9 \xe2\x82\xac\n\t1"), "caf\xc3\xa9 \xe2\x82\xac\n\t1"); }

TEST(Printable, WhatATerminalWouldObeyDoesNot) {
  EXPECT_EQ(Printable("a\x1b[2J\r\x7f"), "a?[2J??");
  EXPECT_EQ(Printable("\xc2\x9b"), "\xef\xbf\xbd\xef\xbf\xbd");  // CSI in one character
}

TEST(Printable, BytesOfNoCharacterAreReplaced) {
  EXPECT_EQ(Printable("a\xff"
                      "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(Printable("\xc3"), "\xef\xbf\xbd");
  EXPECT_EQ(Printable("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace zeroshard::trainer
