#include "zeroshard/trainer/clock_offset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "zeroshard/device/span.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::trainer {
namespace {

constexpr int kRounds = 9;  // the first gather of a connection is slow

// Before this round's gather, and after the last one's.
using Times = std::array<int64_t, 2>;

}  // namespace

int64_t OffsetWithin(int64_t least, int64_t most) {
  if (least <= 0 && most >= 0) return 0;
  return least + (most - least) / 2;
}

absl::StatusOr<int64_t> MeasureClockOffset(comm::Communicator& communicator) {
  device::Device& device = communicator.device();
  const int64_t ranks = communicator.world_size();
  const auto rank = static_cast<size_t>(communicator.rank());
  ZS_ASSIGN_OR_RETURN(const device::Buffer one, device.Allocate(sizeof(Times), device::Use::kData, "clock of this rank"));
  ZS_ASSIGN_OR_RETURN(const device::Buffer all, device.Allocate(static_cast<int64_t>(sizeof(Times)) * ranks,
                                                                device::Use::kData, "clocks of all ranks"));
  const device::Array in = one.array(device::DType::kInt64), out = all.array(device::DType::kInt64);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  std::vector<Times> times(static_cast<size_t>(ranks));
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  Times mine = {};
  for (int round = 0; round < kRounds; ++round) {
    const Times last = mine;
    mine[0] = device::NowNs();
    device.CopyFromHost(*stream, &mine, in);
    stream->Synchronize();
    ZS_RETURN_IF_ERROR(
        communicator.AllGather(in, out, {.wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "clocks"})
            .Wait());
    mine[1] = device::NowNs();
    device.CopyToHost(*stream, out, times.data());
    stream->Synchronize();
    most = std::min(most, mine[1] - times[0][0]);
    if (round > 0) least = std::max(least, last[0] - times[0][1]);
  }
  ZS_RETURN_IF_ERROR(device.status());
  return rank == 0 ? 0 : OffsetWithin(least, most);
}

}  // namespace zeroshard::trainer
