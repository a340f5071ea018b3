#include "zeroshard/tools/comm_bench_room.h"

#include <string>

#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/tools/comm_bench_case.h"

namespace zeroshard::tools {
namespace {

using device::Use;
using trainer::RoomParts;

int64_t BytesIn(const trainer::Room& room, const CommBenchBytes& rank) {
  const int64_t device = room.parts == RoomParts::kHost ? 0 : rank.device;
  const int64_t host = room.parts == RoomParts::kDevice ? 0 : rank.host;
  return static_cast<int64_t>(room.ranks.size()) * (device + host);
}

}  // namespace

absl::Status CheckBenchRoom(const CommBenchOptions& options, int world_size, const trainer::Room& room) {
  const CommBenchBytes rank = CommBenchCase::MostBytes(options, world_size);
  const int64_t bytes = BytesIn(room, rank);
  if (bytes <= room.bytes) return absl::OkStatus();
  device::MemoryLedger ledger;
  ledger.Predict(Use::kCommunication, rank.device);
  ledger.Predict(Use::kData, rank.host);
  std::string remedies = "smaller --sizes, fewer ranks on this machine";
  if (!options.in_place) remedies += ", --in_place";
  return trainer::NoRoom(room, bytes, remedies, ledger.Table());
}

}  // namespace zeroshard::tools
