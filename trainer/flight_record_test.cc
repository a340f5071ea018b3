#include "zeroshard/trainer/flight_record.h"

#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zeroshard/zero/testing/ranks.h"

namespace zeroshard::trainer {
namespace {

using device::DType;
using nlohmann::json;

std::vector<json> Lines(const std::string& path) {
  std::vector<json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line, nullptr, false));
  return lines;
}

TEST(FlightRecord, NamesEachRanksLastOperations) {
  const std::string folder = ::testing::TempDir();
  zero::testing::RunOnRanks({.world_size = 2}, [&](comm::Communicator& communicator) {
    auto buffer = communicator.device().Allocate(40, device::Use::kData, "x");
    ASSERT_TRUE(buffer.ok());
    const device::Array x = buffer->array(DType::kFloat32);
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(communicator.AllReduce(x, x, comm::ReduceOp::kSum, {.label = "h.3"}).Wait().ok());
    }
    ASSERT_TRUE(communicator.Barrier({.traffic = comm::Traffic::kControl, .label = "end"}).Wait().ok());
    const auto path = WriteFlightRecord(communicator, folder, absl::UnavailableError("rank 7 is gone"));
    ASSERT_TRUE(path.ok()) << path.status();
    const std::vector<json> lines = Lines(*path);
    ASSERT_EQ(lines.size(), 257u);
    EXPECT_EQ(lines[0]["rank"], communicator.rank());
    EXPECT_EQ(lines[0]["world_size"], 2);
    EXPECT_EQ(lines[0]["cause"], "rank 7 is gone");
    for (size_t i = 1; i < lines.size(); ++i) {
      ASSERT_FALSE(lines[i].is_discarded());
      EXPECT_EQ(lines[i]["sequence"], 301 - 256 + static_cast<int>(i));
      EXPECT_EQ(lines[i]["state"], "ended");
      EXPECT_EQ(lines[i]["group"], "all ranks");
      EXPECT_GE(lines[i]["begun_ns"], lines[i]["issued_ns"]);
      EXPECT_GE(lines[i]["ended_ns"], lines[i]["begun_ns"]);
    }
    EXPECT_EQ(lines[255]["kind"], "all-reduce");
    EXPECT_EQ(lines[255]["label"], "h.3");
    EXPECT_EQ(lines[255]["dtype"], "fp32");
    EXPECT_EQ(lines[255]["count"], 10);
    EXPECT_EQ(lines[255]["bytes"], 40);
    EXPECT_EQ(lines[255]["traffic"], "data");
    EXPECT_EQ(lines[256]["kind"], "barrier");
    EXPECT_EQ(lines[256]["traffic"], "control");
  });
}

TEST(FlightRecord, SaysHowFarAnOperationCame) {
  const FlightHeader header = {.rank = 1, .world_size = 2, .cause = "\xff bytes \" of others", .now_ns = 9'000};
  device::Span issued, begun;
  issued.issued_ns = 4'000;
  begun.issued_ns = 1'000;
  begun.begun_ns = 3'000;
  const std::vector<device::Span> spans = {begun, issued};
  const std::string text = FormatFlightRecord(header, spans);
  const std::string path = ::testing::TempDir() + "/record.jsonl";
  std::ofstream(path) << text;
  const std::vector<json> lines = Lines(path);
  ASSERT_EQ(lines.size(), 3u);
  ASSERT_FALSE(lines[0].is_discarded());
  EXPECT_EQ(lines[1]["state"], "begun");
  EXPECT_EQ(lines[1]["queued_us"], 2.0);
  EXPECT_EQ(lines[1]["ran_us"], 6.0);
  EXPECT_TRUE(lines[1]["ended_ns"].is_null());
  EXPECT_EQ(lines[2]["state"], "issued");
  EXPECT_EQ(lines[2]["queued_us"], 5.0);
}

TEST(FlightRecord, FolderThatIsNotThereIsNamed) {
  zero::testing::RunOnRanks({.world_size = 1}, [&](comm::Communicator& communicator) {
    const auto path = WriteFlightRecord(communicator, "/nowhere", absl::UnavailableError("x"));
    EXPECT_FALSE(path.ok());
    EXPECT_NE(path.status().message().find("/nowhere"), std::string::npos);
  });
}

}  // namespace
}  // namespace zeroshard::trainer
