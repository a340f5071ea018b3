#include "zeroshard/trainer/tensorboard/event_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/trainer/tensorboard/crc32c.h"
#include "zeroshard/trainer/tensorboard/event.pb.h"

namespace zeroshard::trainer {
namespace {

std::string NewFolder(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
T Take(const std::string& bytes, size_t at) {
  T value = {};
  EXPECT_LE(at + sizeof(T), bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::vector<tensorboard::Event> Parse(const std::string& bytes) {
  std::vector<tensorboard::Event> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = Take<uint64_t>(bytes, at);
    const auto sum = [&](size_t first, size_t count) {
      return MaskedCrc32c(std::as_bytes(std::span(bytes)).subspan(first, count));
    };
    EXPECT_EQ(Take<uint32_t>(bytes, at + 8), sum(at, 8));
    EXPECT_EQ(Take<uint32_t>(bytes, at + 12 + length), sum(at + 12, length));
    EXPECT_TRUE(events.emplace_back().ParseFromArray(bytes.data() + at + 12, static_cast<int>(length)));
    at += 16 + length;
  }
  return events;
}

TEST(Crc32c, IsCastagnolis) {
  const std::string text = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(text))), 0xe3069283u);
  const std::vector<std::byte> zeros(32);
  EXPECT_EQ(Crc32c(zeros), 0x8a9136aau);
}

TEST(EventFile, HoldsEachStepsScalarsAsSoonAsItIsWritten) {
  auto file = EventFile::Create(NewFolder("board"));
  ASSERT_TRUE(file.ok()) << file.status();
  const Scalar first[] = {{"loss", 4.5}, {"lr", 0.25}, {"val_loss", 5.5}};
  const Scalar second[] = {{"loss", 3.5}};
  EXPECT_FALSE(file->Write(0, first));
  EXPECT_FALSE(file->Write(10, second));
  const std::vector<tensorboard::Event> events = Parse(ReadAll(file->path()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  ASSERT_EQ(events[1].summary().value_size(), 3);
  EXPECT_EQ(events[1].step(), 0);
  EXPECT_EQ(events[1].summary().value(2).tag(), "val_loss");
  EXPECT_EQ(events[1].summary().value(2).simple_value(), 5.5f);
  ASSERT_EQ(events[2].summary().value_size(), 1);
  EXPECT_EQ(events[2].step(), 10);
  EXPECT_EQ(events[2].summary().value(0).tag(), "loss");
  EXPECT_GE(events[2].wall_time(), events[0].wall_time());
  EXPECT_TRUE(file->Close().ok());
}

// Field numbers are TensorBoard's: wall_time 1 (fixed 64), step 2, file_version 3, summary 5, value 1, tag 1, simple_value 2.
TEST(EventFile, BytesAreTensorBoards) {
  tensorboard::Event event;
  event.set_step(3);
  tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag("loss");
  value->set_simple_value(1.0f);
  const std::string expected = std::string("\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15", 13) + std::string("\0\0\x80\x3f", 4);
  EXPECT_EQ(event.SerializeAsString(), expected);
}

TEST(EventFile, SaysWhatCannotBeMade) {
  const auto file = EventFile::Create("/nowhere/at/all");
  EXPECT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::trainer
