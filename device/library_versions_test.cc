#include "zeroshard/device/library_versions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

using ::testing::StartsWith;

std::string Told(std::string_view has, std::string_view other_has) {
  const absl::Status status = CheckSameLibraries(/*rank=*/0, has, /*other=*/3, other_has);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(LibraryVersions, AreWrittenAsTheirMakerNumbersThem) {
  EXPECT_EQ(LibraryText("NCCL", 22809), "NCCL 2.28.9");
  EXPECT_EQ(LibraryText("cuBLASLt", 130002), "cuBLASLt 13.0.2");
  EXPECT_EQ(LibraryText("cuDNN", 91400), "cuDNN 9.14.0");
  EXPECT_EQ(LibraryText("cuDNN", 0), "no cuDNN");
}

TEST(LibraryVersions, OfAllRanksAreTheSame) {
  EXPECT_TRUE(CheckSameLibraries(0, "cuBLASLt 13.0.2, cuDNN 9.14.0", 3, "cuBLASLt 13.0.2, cuDNN 9.14.0").ok());
  EXPECT_TRUE(CheckSameLibraries(0, "", 3, "").ok());
}

TEST(LibraryVersions, ThatDifferAreNamedWithBothRanks) {
  EXPECT_THAT(Told("cuBLASLt 13.0.2, cuDNN 9.14.0", "cuBLASLt 13.0.2, cuDNN 9.8.0"),
              StartsWith("rank 0 has cuDNN 9.14.0, rank 3 has cuDNN 9.8.0: all ranks need the same version"));
  EXPECT_THAT(Told("cuBLASLt 13.0.2, no cuDNN", "cuBLASLt 13.0.2, cuDNN 9.8.0"),
              StartsWith("rank 0 has no cuDNN, rank 3 has cuDNN 9.8.0: "));
  EXPECT_THAT(Told("cuBLASLt 12.9.0, cuDNN 9.8.0", "cuBLASLt 13.0.2, cuDNN 9.8.0"),
              StartsWith("rank 0 has cuBLASLt 12.9.0, rank 3 has cuBLASLt 13.0.2: "));
  EXPECT_THAT(Told("", "cuBLASLt 13.0.2"), StartsWith("rank 0 has no such library, rank 3 has cuBLASLt 13.0.2: "));
}

}  // namespace
}  // namespace zeroshard::device
