#include "zeroshard/backends/nccl/rank_words.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/tools/fuzz/fuzz_target.h"

namespace zeroshard::backends {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectStrange(const absl::Status& status, int rank) {
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("nccl: rank " + std::to_string(rank) + " wrote '"));
  EXPECT_TRUE(fuzz::Prints(status.message())) << status;
  EXPECT_LT(status.message().size(), 500u) << status;
}

TEST(RankWords, AreReadAsTheyAreWritten) {
  const auto words = ParseRank(3, FormatRank({.libraries = "NCCL 2.28.9, no cuDNN",
                                              .host = "n\xc3\xb6"
                                                      "de/a5"}));
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->libraries, "NCCL 2.28.9, no cuDNN");
  EXPECT_EQ(words->host,
            "n\xc3\xb6"
            "de/a5");
  EXPECT_TRUE(CheckUniqueId(std::string(128, '\0'), 128).ok());
  for (const PlaceWords& place : {PlaceWords{.bytes = 1000, .piece = 3, .offset = 4096}, PlaceWords{},
                                  PlaceWords{.bytes = INT64_MAX, .piece = INT64_MAX, .offset = INT64_MAX}}) {
    const auto read = ParsePlace(3, FormatPlace(place));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, place);
  }
  EXPECT_TRUE(ParseYes(3, FormatYes(true)).value());
  EXPECT_FALSE(ParseYes(3, FormatYes(false)).value());
}

TEST(RankWords, OfLibrariesAndAHostAreTwoLines) {
  for (const std::string& value :
       {std::string(), std::string("NCCL 2.28.9"), std::string("\n"), std::string("NCCL 2.28.9\n"), std::string("\nnode"),
        std::string("NCCL\x1b[2J\nnode"), std::string("NCCL 2.28.9\nnode\nmore"), std::string("NCCL\xc3\xb6\nnode"),
        std::string("NCCL\0\nnode", 10), std::string("NCCL 2.28.9\nno\x7f"), std::string(1001, 'x') + "\nnode",
        "NCCL 2.28.9\n" + std::string(501, 'x'), std::string(1 << 20, '\n'), std::string(1 << 20, '\x1b')}) {
    ExpectStrange(ParseRank(5, value).status(), 5);
  }
}

TEST(RankWords, OfAUniqueIdAreAsManyBytesAsNcclsHas) {
  for (const std::string& value : {std::string(), std::string(127, '\0'), std::string(129, '\xff')}) {
    const absl::Status told = CheckUniqueId(value, 128);
    ExpectStrange(told, 0);
    EXPECT_THAT(std::string(told.message()), HasSubstr("(" + std::to_string(value.size()) + " bytes)"));
  }
}

TEST(RankWords, OfAPlaceAreThreeNumbers) {
  for (const std::string value : {"",
                                  "1000",
                                  "1000 at",
                                  "1000 at ",
                                  "1000 at 3",
                                  "1000 at 3:",
                                  "1000 at :4096",
                                  " at 3:4096",
                                  "1000 at 3:4096 ",
                                  "1000 at 3:4096:1",
                                  "1000 at 0x3:4096",
                                  "1e3 at 3:4096",
                                  "-1 at 3:4096",
                                  "1000 at -2:4096",
                                  "1000 at 3:-4096",
                                  "+1000 at 3:4096",
                                  "01000 at 3:4096",
                                  "9223372036854775808 at 3:0",
                                  "1 at 9223372036854775808:0",
                                  "1 at a:t 2:3",
                                  "1: at 2",
                                  "1000\xff at 3:4096",
                                  "1000 at 3:4096\n",
                                  "1000 at \x1b[2J:4096"}) {
    ExpectStrange(ParsePlace(2, value).status(), 2);
  }
  ExpectStrange(ParsePlace(2, std::string(1 << 20, '9') + " at 3:4096").status(), 2);
}

TEST(RankWords, OfAnAnswerAreTwo) {
  for (const std::string& value : {std::string(), std::string("ye"), std::string("yes "), std::string("no "),
                                   std::string("no\0", 3), std::string("\x1b[2J\xff"), std::string(1 << 20, 'r')}) {
    ExpectStrange(ParseYes(1, value).status(), 1);
  }
}

TEST(RankWords, ThatMakeNoSenseAreShownAsFarAsATerminalMay) {
  EXPECT_EQ(ParseYes(1, "a\x1b[2J").status().message(),
            "nccl: rank 1 wrote 'a\\x1b[2J' (5 bytes) to the store, where it writes 'yes' or 'no': start the same "
            "program on all ranks, and nothing else with this job's store");
  EXPECT_THAT(std::string(ParseYes(1, std::string(100, 'b')).status().message()),
              HasSubstr(" wrote '" + std::string(60, 'b') + "...' (100 bytes) to"));
}

}  // namespace
}  // namespace zeroshard::backends
