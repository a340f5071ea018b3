#include "zeroshard/trainer/memory_room.h"

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/activation_checkpoints.h"
#include "zeroshard/model/gpt_activations.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/rank_report.h"
#include "zeroshard/zero/formulas.h"

namespace zeroshard::trainer {
namespace {

using Lines = std::array<LedgerLine, device::kUses>;

Lines LinesOf(const zero::MemoryBytes& engine, int64_t activations) {
  Lines lines = {};
  const auto line = [&](device::Use use) -> int64_t& { return lines[static_cast<size_t>(use)].now; };
  line(device::Use::kParameters) = engine.parameters;
  line(device::Use::kGradients) = engine.gradients;
  line(device::Use::kMasterWeights) = engine.master_weights;
  line(device::Use::kMoments) = engine.moments;
  line(device::Use::kActivations) = activations;
  line(device::Use::kCommunication) = engine.communication;
  return lines;
}

int64_t Sum(const Lines& lines) {
  int64_t sum = 0;
  for (const LedgerLine& line : lines) sum += line.now;
  return sum;
}

// A run's memory, as far as options tell.
struct Need {
  zero::Layout layout;
  RunOptions options;
  int world_size;

  RankReport Of(int rank) const {
    const int64_t activations =
        model::GptActivations::LeastBytes(options.model) + model::ActivationCheckpoints::DeviceBytes(options.model);
    RankReport report;
    report.ledger = LinesOf(zero::PredictMemory(layout, options.engine, rank), activations);
    report.host_ledger = LinesOf(zero::PredictHostMemory(layout, options.engine, rank),
                                 model::ActivationCheckpoints::HostBytes(options.model));
    return report;
  }

  int64_t In(const Room& room) const {
    int64_t bytes = 0;
    for (const int rank : room.ranks) {
      const RankReport report = Of(rank);
      if (room.parts != RoomParts::kHost) bytes += Sum(report.ledger);
      if (room.parts != RoomParts::kDevice) bytes += Sum(report.host_ledger);
    }
    return bytes;
  }

  std::string Table() const {
    std::vector<RankReport> reports;
    for (int rank = 0; rank < world_size; ++rank) reports.push_back(Of(rank));
    return MemoryTable(layout, options.engine, reports, "needed");
  }
};

absl::StatusOr<Need> NeedOf(RunOptions options, int world_size) {
  ZS_RETURN_IF_ERROR(zero::Validate(options.engine));
  ZS_ASSIGN_OR_RETURN(options, Settle(std::move(options), world_size));
  ZS_ASSIGN_OR_RETURN(const std::vector<model::UnitSpec> units, model::GptUnits(options.model));
  ZS_ASSIGN_OR_RETURN(zero::Layout layout, zero::Layout::Create(units, zero::LayoutOptionsOf(options.engine, world_size)));
  return Need{std::move(layout), std::move(options), world_size};
}

std::string Size(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  return value < 1e9 ? absl::StrFormat("%.1f MB", value / 1e6) : absl::StrFormat("%.1f GB", value / 1e9);
}

// What would need less, each by itself, with what it would need.
std::string Remedies(const RunOptions& options, int world_size, const Room& room, int64_t bytes) {
  std::vector<std::string> remedies;
  const auto add = [&](std::string_view flag, auto change) {
    RunOptions changed = options;
    change(changed);
    const absl::StatusOr<Need> need = NeedOf(std::move(changed), world_size);
    if (!need.ok() || need->In(room) >= bytes) return;
    remedies.push_back(absl::StrCat(std::string(flag), " (", Size(need->In(room)), ")"));
  };
  add("--stage=3", [](RunOptions& o) { o.engine.stage = 3; });
  add("--offload_optimizer=cpu", [](RunOptions& o) { o.engine.offload_optimizer.target = zero::OffloadTarget::kHost; });
  add("--activation_checkpoint_every=1", [](RunOptions& o) { o.model.checkpoint_every = 1; });
  add("--batch=1", [&](RunOptions& o) { o.rows = world_size; });
  remedies.emplace_back("a smaller model");
  if (options.engine.stage > 0) remedies.emplace_back("more GPUs or machines");
  return absl::StrJoin(remedies, ", ");
}

}  // namespace

absl::Status CheckRoom(const RunOptions& options, int world_size, const Room& room) {
  ZS_ASSIGN_OR_RETURN(const Need need, NeedOf(options, world_size));
  const int64_t bytes = need.In(room);
  if (bytes <= room.bytes) return absl::OkStatus();
  return NoRoom(room, bytes, Remedies(options, world_size, room, bytes), need.Table());
}

absl::Status NoRoom(const Room& room, int64_t bytes, std::string_view remedies, std::string_view table) {
  const std::string who =
      room.ranks.size() == 1 ? "a rank needs " : absl::StrCat(room.ranks.size(), " ranks together need ");
  return absl::InvalidArgumentError(absl::StrCat(who, Size(bytes), " or more, and ",
                                                 absl::Substitute(room.says, Size(room.bytes)), "; less is needed with ",
                                                 std::string(remedies), "\n", std::string(table)));
}

}  // namespace zeroshard::trainer
