#include "zeroshard/tools/memory_check.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "zeroshard/comm/backend_registry.h"
#include "zeroshard/device/cpu/host_memory.h"
#include "zeroshard/device/device_needs.h"
#include "zeroshard/device/device_registry.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/memory_room.h"

namespace zeroshard::tools {
namespace {

using trainer::RoomParts;

// Of this machine; none where ranks are on several.
std::vector<int> RanksHere(const JobPlan& plan) {
  if (plan.kind == JobPlan::Kind::kOneRank) return {plan.rank};
  std::vector<int> ranks;
  for (int rank = 0; plan.options.hosts.empty() && rank < plan.world_size; ++rank) ranks.push_back(rank);
  return ranks;
}

// Of its card: in whole pieces, most of which are still to be had.
int64_t TakenBy(device::Device& device) {
  const std::optional<device::CardMemory> card = device.card_memory();
  int64_t bytes = card ? card->granularity_bytes : 0;
  for (int use = 0; use < device::kUses; ++use) bytes += device.ledger().now(static_cast<device::Use>(use));
  return bytes;
}

}  // namespace

trainer::Surroundings SurroundingsOf(const JobPlan& plan) {
  const bool opaque = plan.on_gpus();
  return {.world_size = plan.world_size,
          .communicator = [backend = plan.options.backend,
                           opaque](int ranks) { return comm::MemoryOf(backend, {.world_size = ranks, .opaque = opaque}); },
          .device = device::NeedsOf(opaque ? "cuda" : "cpu")};
}

absl::Status CheckRooms(const JobPlan& plan, RoomCheck fits) {
  const std::vector<int> ranks = RanksHere(plan);
  const bool on_gpus = plan.gpus.count > 0;
  ZS_RETURN_IF_ERROR(fits({.says = "this machine has $0 left",
                           .bytes = device::AvailableHostBytes() + device::FreeSwapBytes(),
                           .ranks = ranks,
                           .parts = on_gpus ? RoomParts::kHost : RoomParts::kBoth}));
  const int gpus = std::min<int>(plan.gpus.count, static_cast<int>(ranks.size()));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    trainer::Room room = {.says = "the GPU has $0", .bytes = plan.gpus.least_bytes, .parts = RoomParts::kDevice};
    for (size_t r = static_cast<size_t>(gpu); r < ranks.size(); r += static_cast<size_t>(gpus))
      room.ranks.push_back(ranks[r]);
    ZS_RETURN_IF_ERROR(fits(room));
  }
  return absl::OkStatus();
}

absl::Status CheckCardRoom(device::Device& device, int rank, RoomCheck fits) {
  const std::optional<int64_t> free_bytes = device::FreeBytesOf(device);
  if (!free_bytes) return absl::OkStatus();
  const int64_t left = *free_bytes + TakenBy(device);
  return fits({.says = "the GPU has $0 left", .bytes = left, .ranks = {rank}, .parts = RoomParts::kDevice});
}

absl::Status RunCheck::operator()(const trainer::Room& room) const {
  trainer::Surroundings surroundings = SurroundingsOf(plan);
  surroundings.evaluation = evaluation;
  return trainer::CheckRoom(run, surroundings, room, work);
}

}  // namespace zeroshard::tools
