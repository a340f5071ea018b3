#include "zeroshard/tools/comm_bench_room.h"

#include <string>

#include "zeroshard/comm/backend_memory.h"
#include "zeroshard/tools/comm_bench_case.h"

namespace zeroshard::tools {
namespace {

using device::Use;
using trainer::RoomParts;

// What the surroundings take is the device's or the host's, like the cases' own.
CommBenchBytes OfRank(const CommBenchOptions& options, const trainer::Surroundings& surroundings) {
  CommBenchBytes rank = CommBenchCase::MostBytes(options, surroundings.world_size);
  const comm::BackendMemory communicator = surroundings.OfCommunicator(surroundings.world_size);
  rank.device += communicator.device_bytes + surroundings.device.own_bytes;
  rank.host += communicator.host_bytes;
  return rank;
}

int64_t BytesIn(const trainer::Room& room, const CommBenchBytes& rank) {
  const int64_t device = room.parts == RoomParts::kHost ? 0 : rank.device;
  const int64_t host = room.parts == RoomParts::kDevice ? 0 : rank.host;
  return static_cast<int64_t>(room.ranks.size()) * (device + host);
}

}  // namespace

void PredictBench(const CommBenchOptions& options, const trainer::Surroundings& surroundings, device::MemoryLedger& ledger) {
  const CommBenchBytes rank = OfRank(options, surroundings);
  const int64_t staged = surroundings.OfCommunicator(surroundings.world_size).host_bytes;
  ledger.Predict(Use::kCommunication, rank.device + staged);
  ledger.Predict(Use::kData, rank.host - staged);
}

absl::Status CheckBenchRoom(const CommBenchOptions& options, const trainer::Surroundings& surroundings,
                            const trainer::Room& room) {
  const int64_t bytes = BytesIn(room, OfRank(options, surroundings));
  if (bytes <= room.bytes) return absl::OkStatus();
  device::MemoryLedger ledger;
  PredictBench(options, surroundings, ledger);
  std::string remedies = "smaller --sizes, fewer ranks on this machine";
  if (!options.in_place) remedies += ", --in_place";
  return trainer::NoRoom(room, bytes, remedies, ledger.Table());
}

}  // namespace zeroshard::tools
