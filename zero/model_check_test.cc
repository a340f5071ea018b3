#include "zeroshard/zero/model_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zeroshard/zero/testing/toy_options.h"
#include "zeroshard/zero/testing/toy_units.h"

namespace zeroshard::zero {
namespace {

using ::testing::AllOf;
using testing::EqualUnits;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ModelCheck, NamesTheUnitThatLiveParametersHaveNoRoomFor) {
  EngineOptions options = testing::ToyOptions(3, Partition::kFlat);
  options.max_live_parameters = 1000;
  EXPECT_TRUE(CheckModel(EqualUnits(3, 890), options, 2, 2).ok());
  EXPECT_THAT(Message(CheckModel(EqualUnits(3, 1100), options, 2, 2)),
              HasSubstr("max_live_parameters is 1000, but unit unit.0 alone gathers 1152 elements"));
}

// Twelve terabytes of moments; as much again where masters lie there too.
TEST(ModelCheck, NamesTheFolderThatHasNoRoomForAllRanksFiles) {
  const std::vector<model::UnitSpec> units = EqualUnits(3, int64_t{1} << 39);
  EngineOptions options = testing::ToyOptions(3, Partition::kFlat);
  options.offload_optimizer = {.target = OffloadTarget::kFile, .folder = ::testing::TempDir()};
  options.sub_group_size = int64_t{1} << 20;
  EXPECT_THAT(Message(CheckModel(units, options, 4, 4)),
              AllOf(HasSubstr("offload_optimizer is nvme in " + ::testing::TempDir()),
                    HasSubstr("the files of 4 ranks take 13194139533312 bytes, "), HasSubstr("make room")));
  EXPECT_TRUE(CheckModel(units, options, 4, 0).ok()) << "ranks of other machines";
  options.offload_optimizer = {.target = OffloadTarget::kHost};
  EXPECT_TRUE(CheckModel(units, options, 4, 4).ok());
  options.offload_parameters = {.target = OffloadTarget::kFile, .folder = ::testing::TempDir()};
  EXPECT_THAT(Message(CheckModel(units, options, 4, 4)), HasSubstr("offload_parameters is nvme in "));
}

}  // namespace
}  // namespace zeroshard::zero
