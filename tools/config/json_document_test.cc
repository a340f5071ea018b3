#include "zeroshard/tools/config/json_document.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& text) { return std::string(JsonDocument::Parse("a.json", text).status().message()); }

TEST(JsonDocumentTest, EveryKeyAndValueKnowsItsPlace) {
  const auto document = JsonDocument::Parse("a.json",
                                            "{\n"
                                            "  \"a\\\"é\": 5e8, /* a, : comment */ \"list\": [true, null, -1.5],\n"
                                            "  // another: one\n"
                                            "  \"inner\": {\"text\": \"x\\ny\"}\n"
                                            "}");
  ASSERT_TRUE(document.ok()) << document.status();
  const JsonValue& root = document->root();
  EXPECT_EQ(document->Place(root.FindMember("a\"é")->position), "a.json:2:3");
  EXPECT_EQ(document->Place(root.Find("a\"é")->position), "a.json:2:11");
  EXPECT_EQ(root.Find("a\"é")->text, "5e8");
  EXPECT_EQ(document->Place(root.Find("list")->elements[2].position), "a.json:2:56");
  EXPECT_EQ(root.Find("list")->elements[2].text, "-1.5");
  EXPECT_TRUE(root.Find("list")->elements[0].IsTrue());
  EXPECT_EQ(document->Place(root.Find("inner")->Find("text")->position), "a.json:4:21");
  EXPECT_EQ(root.Find("inner")->Find("text")->text, "x\ny");
  EXPECT_EQ(root.Find("none"), nullptr);
}

TEST(JsonDocumentTest, ErrorsNameTheirPlace) {
  EXPECT_THAT(ErrorOf("{\n  \"a\": 1,\n  \"b\" 2\n}"), StartsWith("a.json:3:7: "));
  EXPECT_THAT(ErrorOf(""), StartsWith("a.json:1:1: "));
  EXPECT_THAT(ErrorOf("{\"a\": 1} x"), StartsWith("a.json:1:10: "));
  EXPECT_THAT(ErrorOf("{\"a\": NaN}"), StartsWith("a.json:1:"));
  EXPECT_THAT(ErrorOf("{\"a\": \"\xff\"}"), StartsWith("a.json:1:"));
  EXPECT_THAT(ErrorOf("{\"a\": 1"), StartsWith("a.json:1:"));
}

TEST(JsonDocumentTest, AKeyThatOccursTwiceIsAnError) {
  EXPECT_THAT(ErrorOf("{\"a\": {\"b\": 1},\n \"b\": 2,\n \"a\": 3}"),
              "a.json:3:2: the key \"a\" occurs twice; the first is in line 1: leave one of them out");
}

TEST(JsonDocumentTest, DepthIsLimited) {
  EXPECT_THAT(ErrorOf(std::string(100'000, '[')), HasSubstr("nested deeper than 64"));
  EXPECT_TRUE(JsonDocument::Parse("a.json", std::string(64, '[') + std::string(64, ']')).ok());
}

TEST(JsonDocumentTest, ByteOrderMarksArePassedOver) {
  const auto document = JsonDocument::Parse("a.json", "\xEF\xBB\xBF{\"a\": 1}");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->root().Find("a")->text, "1");
}

}  // namespace
}  // namespace zeroshard::tools
