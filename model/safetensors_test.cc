#include "zeroshard/model/safetensors.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/model/hugging_face.h"

namespace zeroshard::model {
namespace {

std::string Header(const std::string& json) {
  const uint64_t bytes = json.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &bytes, 8);
  return text + json;
}

std::string Floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

std::string WriteFile(const std::string& bytes) {
  const std::string path =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

constexpr char kGood[] =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[24,24]},"half":{"dtype":"F16","shape":[2],"data_offsets":[24,28]}})";

TEST(SafetensorsTest, Tensors_AreReadByName) {
  const auto file = Safetensors::Open(WriteFile(Header(kGood) + Floats({1, 2, 3, 4, 5, 6}) + "half"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(6), none;
  ASSERT_TRUE(file->Read("a", values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(file->Read("none", none).ok());
  EXPECT_EQ(file->Find("a")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->Find("b"), nullptr);
  EXPECT_EQ(file->Read("b", values).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->Read("a", std::span(values).first(5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file->Read("half", std::span(values).first(2)).code(), absl::StatusCode::kUnimplemented);
}

TEST(SafetensorsTest, DamagedFiles_AreRefusedWithTheirName) {
  const std::string good = Header(kGood) + Floats({1, 2, 3, 4, 5, 6}) + "half";
  std::vector<std::string> bad = {
      "",           "short",     good.substr(0, 40), good.substr(0, good.size() - 1),
      Header("[]"), Header("{"), Header("\xff\xfe"), std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + "{}"};
  for (const char* entry : {R"({"a":3})", R"({"a":{}})", R"({"a":{"dtype":"F32","shape":[1]}})",
                            R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})",
                            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                            R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
                            R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
                            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
                            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
                            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})",
                            R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})",
                            R"({"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,4]}})"}) {
    bad.push_back(Header(entry) + "data");
  }
  for (const std::string& bytes : bad) {
    const std::string path = WriteFile(bytes);
    const absl::Status status = Safetensors::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
  }
}

TEST(SafetensorsTest, AnyDamage_IsAnErrorOrAFileThatReads) {
  const std::string good = Header(kGood) + Floats({1, 2, 3, 4, 5, 6}) + "half";
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = good;
    for (int change = 0; change < 1 + i % 3; ++change) bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(i % 5 == 0 ? random() % bytes.size() : bytes.size());
    const auto file = Safetensors::Open(WriteFile(bytes));
    if (!file.ok()) {
      ++refused;
      continue;
    }
    for (const auto& [name, tensor] : file->tensors()) {
      ASSERT_LE(tensor.first_byte + tensor.bytes, static_cast<int64_t>(bytes.size()));
      std::vector<float> values(tensor.elements());
      const absl::Status status = file->Read(name, values);
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kUnimplemented) << status;
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_LT(refused, 1000);
}

TEST(SafetensorsTest, AFileThatIsNone_IsToldApart) {
  EXPECT_EQ(Safetensors::Open("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Safetensors::Open(testing::TempDir()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(HuggingFaceTest, LinearLayersOfABlock_AreTransposed) {
  const std::string header = R"({"h.0.mlp.c_fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("transformer.wpe.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const auto file = Safetensors::Open(WriteFile(Header(header) + Floats({1, 2, 3, 4, 5, 6})));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(6);
  ASSERT_TRUE(ReadHuggingFace(*file, {.name = "transformer.h.0.mlp.c_fc.weight", .shape = {3, 2}}, values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 4, 2, 5, 3, 6}));
  ASSERT_TRUE(ReadHuggingFace(*file, {.name = "transformer.wpe.weight", .shape = {2, 3}}, values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const absl::Status status = ReadHuggingFace(*file, {.name = "transformer.wpe.weight", .shape = {3, 2}}, values);
  EXPECT_NE(status.message().find("is [2, 3] where the model wants [3, 2]"), absl::string_view::npos) << status;
  EXPECT_EQ(ReadHuggingFace(*file, {.name = "lm_head.weight", .shape = {3, 2}}, values).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroshard::model
