#include "zeroshard/trainer/data/prepare.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/trainer/data/data_set.h"
#include "zeroshard/trainer/data/tokenizer.h"

namespace zeroshard::trainer {
namespace {

using ::testing::HasSubstr;

class PrepareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string Tokens(const std::vector<uint16_t>& tokens) {
    return std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
  }
  static std::string Refusal(const DataOptions& options, int64_t context = 4) {
    absl::StatusOr<PreparedData> data = PrepareData(options, context);
    return data.ok() ? "accepted" : std::string(data.status().message());
  }
  static std::vector<int32_t> Sequence(const PreparedData& data, int64_t sample, int64_t context) {
    absl::StatusOr<DataSet> set = DataSet::Open(data, {.context = context, .mode = SampleOrder::Mode::kSequential});
    EXPECT_TRUE(set.ok()) << set.status();
    std::vector<int32_t> inputs(context), targets(context);
    EXPECT_TRUE(set->Read(sample, inputs, targets).ok());
    for (int64_t i = 1; i < context; ++i) EXPECT_EQ(targets[i - 1], inputs[i]);
    inputs.push_back(targets.back());
    return inputs;
  }

  std::string folder_;
};

TEST_F(PrepareTest, BytesOfATextAreItsTokens) {
  const std::string path = Write("a.txt", "zero shards\n");
  absl::StatusOr<PreparedData> data = PrepareData({.path = path, .tokenizer = "bytes"}, 4);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->vocab, 256);
  EXPECT_EQ(data->tokens, 12);
  EXPECT_EQ(Sequence(*data, 0, 4), (std::vector<int32_t>{'z', 'e', 'r', 'o', ' '}));
  EXPECT_EQ(Sequence(*data, 1, 4), (std::vector<int32_t>{' ', 's', 'h', 'a', 'r'}));
}

TEST_F(PrepareTest, FolderIsReadEndToEndByName) {
  Write("corpus/b.txt", "5678");
  Write("corpus/a.txt", "01234");
  Write("corpus/.hidden", "x");
  absl::StatusOr<PreparedData> data = PrepareData({.path = folder_ + "/corpus"}, 4);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->tokens, 9);
  EXPECT_EQ(Sequence(*data, 1, 4), (std::vector<int32_t>{'4', '5', '6', '7', '8'}));
}

TEST_F(PrepareTest, GzippedTextIsUnpackedOnce) {
  const std::string path = folder_ + "/a.txt.gz";
  gzFile out = gzopen(path.c_str(), "wb");
  gzputs(out, "the unpacked text");
  gzclose(out);
  int notices = 0;
  DataOptions options{.path = path, .notice = [&](std::string_view) { ++notices; }};
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<PreparedData> data = PrepareData(options, 4);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->tokens, 17);
  }
  EXPECT_EQ(notices, 1);
  struct stat facts = {};
  ASSERT_EQ(stat((folder_ + "/cache/zeroshard").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

TEST_F(PrepareTest, NanoGptTokensHaveNoHeader) {
  const std::string path = Write("t.bin", Tokens({7, 8, 9, 10, 11, 50000}));
  absl::StatusOr<PreparedData> data = PrepareData({.path = path}, 5);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->vocab, kTokenFileVocab);
  EXPECT_EQ(Sequence(*data, 0, 5), (std::vector<int32_t>{7, 8, 9, 10, 11, 50000}));
}

TEST_F(PrepareTest, LlmCTokensComeAfterTheirHeader) {
  const std::string path = Write("t.bin", TokenHeader(5, 2) + Tokens({1, 2, 3, 4, 5}));
  absl::StatusOr<PreparedData> data = PrepareData({.path = path, .vocab = 6}, 4);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->tokens, 5);
  EXPECT_EQ(Sequence(*data, 0, 4), (std::vector<int32_t>{1, 2, 3, 4, 5}));
}

TEST_F(PrepareTest, SentencePieceTokensAreEncodedOnceAndDecodeToTheText) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += absl::StrCat("  line ", i, " of a text,\twith \xc3\xa9 and ", i * i, "\n\n");
  const std::string path = Write("a.txt", text);
  const std::string model = folder_ + "/a.model";
  ASSERT_TRUE(TrainTokenizer(path, 320, 1 << 20, model).ok());
  absl::StatusOr<PreparedData> data = PrepareData({.path = path, .tokenizer = model}, 8);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->vocab, 320);
  EXPECT_LT(data->tokens, static_cast<int64_t>(text.size()));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(model);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Decode(Sequence(*data, 0, data->tokens - 1)), text);
}

TEST_F(PrepareTest, BadDataIsRefusedByName) {
  EXPECT_THAT(Refusal({.path = folder_ + "/missing.txt"}), HasSubstr("missing.txt"));
  EXPECT_THAT(Refusal({.path = Write("empty.txt", "")}), HasSubstr("empty.txt' is empty"));
  EXPECT_THAT(Refusal({.path = Write("binary.txt", std::string("ab\0cd", 5))}),
              HasSubstr("binary.txt, offset 2: a zero byte"));
  EXPECT_THAT(Refusal({.path = Write("latin1.txt", "caf\xe9 caf\xe9")}), HasSubstr("latin1.txt, offset 3: not UTF-8"));
  EXPECT_THAT(Refusal({.path = Write("short.txt", "abcd")}), HasSubstr("--context=3 or less"));
  std::filesystem::create_directories(folder_ + "/none");
  EXPECT_THAT(Refusal({.path = folder_ + "/none"}), HasSubstr("holds no file"));
  EXPECT_THAT(Refusal({.path = "/dev/null"}), HasSubstr("neither a file nor a folder"));
  Write("mixed/a.bin", Tokens({1}));
  Write("mixed/b.txt", "text");
  EXPECT_THAT(Refusal({.path = folder_ + "/mixed"}), HasSubstr("mixes token files"));
  EXPECT_THAT(Refusal({.path = Write("a.txt", "some text"), .tokenizer = folder_ + "/a.txt"}),
              HasSubstr("no SentencePiece model"));
  EXPECT_THAT(Refusal({.path = folder_ + "/a.txt", .tokenizer = "bytes", .vocab = 100}), HasSubstr("--vocab=256 or more"));
}

TEST_F(PrepareTest, BadTokenFilesAreRefusedWithTheOffset) {
  EXPECT_THAT(Refusal({.path = Write("beyond.bin", Tokens({1, 2, 3, 4, 5, 600})), .vocab = 512}),
              HasSubstr("beyond.bin, offset 10: token 600 is beyond the vocabulary of 512"));
  EXPECT_THAT(Refusal({.path = Write("odd.bin", "abc")}), HasSubstr("odd number of bytes"));
  EXPECT_THAT(Refusal({.path = Write("cut.bin", TokenHeader(100, 2) + Tokens({1, 2}))}),
              HasSubstr("header says 100 tokens"));
  std::string future = TokenHeader(2, 2) + Tokens({1, 2});
  future[4] = 9;
  EXPECT_THAT(Refusal({.path = Write("future.bin", future)}), HasSubstr("version 9"));
}

TEST_F(PrepareTest, FileCutWhileItIsReadIsAnError) {
  const std::string path = Write("t.bin", Tokens(std::vector<uint16_t>(1000, 1)));
  absl::StatusOr<PreparedData> data = PrepareData({.path = path}, 10);
  ASSERT_TRUE(data.ok());
  absl::StatusOr<DataSet> set = DataSet::Open(*data, {.context = 10, .mode = SampleOrder::Mode::kSequential});
  ASSERT_TRUE(set.ok());
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  std::vector<int32_t> inputs(10), targets(10);
  EXPECT_TRUE(set->Read(0, inputs, targets).ok());
  const absl::Status cut = set->Read(50, inputs, targets);
  EXPECT_EQ(cut.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(cut.message()), HasSubstr("t.bin"));
}

TEST_F(PrepareTest, CacheFolderOpenToOthersIsRefused) {
  const std::string home = folder_ + "/cache/zeroshard";
  std::filesystem::create_directories(home);
  ASSERT_EQ(chmod(home.c_str(), 0777), 0);
  const std::string path = folder_ + "/a.txt.gz";
  gzFile out = gzopen(path.c_str(), "wb");
  gzputs(out, "the unpacked text");
  gzclose(out);
  EXPECT_THAT(Refusal({.path = path}), HasSubstr("not a folder of yours alone"));
}

}  // namespace
}  // namespace zeroshard::trainer
