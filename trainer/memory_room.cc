#include "zeroshard/trainer/memory_room.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "zeroshard/device/memory_ledger.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/activation_checkpoints.h"
#include "zeroshard/model/gpt_activations.h"
#include "zeroshard/model/single_rank.h"
#include "zeroshard/model/token_stage.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/rank_report.h"
#include "zeroshard/zero/formulas.h"

namespace zeroshard::trainer {
namespace {

using Lines = std::array<LedgerLine, device::kUses>;

int64_t& Line(Lines& lines, device::Use use) { return lines[static_cast<size_t>(use)].now; }

Lines LinesOf(const zero::MemoryBytes& engine, int64_t activations) {
  Lines lines = {};
  Line(lines, device::Use::kParameters) = engine.parameters;
  Line(lines, device::Use::kGradients) = engine.gradients;
  Line(lines, device::Use::kMasterWeights) = engine.master_weights;
  Line(lines, device::Use::kMoments) = engine.moments;
  Line(lines, device::Use::kActivations) = activations;
  Line(lines, device::Use::kCommunication) = engine.communication;
  return lines;
}

int64_t Sum(const Lines& lines) {
  int64_t sum = 0;
  for (const LedgerLine& line : lines) sum += line.now;
  return sum;
}

// What a rank holds in its device's memory, what of the host's memory its device's ledger files too, and what is in the host's.
struct RankNeed {
  Lines device = {}, staged = {}, host = {};
};

// A run's memory, as far as options tell.
struct Need {
  zero::Layout layout;
  RunOptions options;
  Surroundings surroundings;
  RoomWork work = RoomWork::kTraining;

  RankNeed Of(int rank) const {
    RankNeed need;
    const int64_t on_host = model::ActivationCheckpoints::HostBytes(options.model);
    if (work == RoomWork::kStepFloor) {
      const model::SingleRank::Memory rank_bytes = model::SingleRank::Bytes(options.model);
      need.device = LinesOf({.parameters = rank_bytes.parameters, .gradients = rank_bytes.gradients}, Activations());
      need.host = LinesOf({}, on_host);
    } else {
      need.device = LinesOf(zero::PredictMemory(layout, options.engine, rank), Activations());
      need.host = LinesOf(zero::PredictHostMemory(layout, options.engine, rank), on_host);
      AddData(rank, need);
    }
    Line(need.staged, device::Use::kActivations) = model::TokenStage::Bytes(options.model);
    AddCommunicators(need);
    return need;
  }

  int64_t Activations() const {
    const device::DeviceNeeds& device = surroundings.device;
    const device::LossBlocks blocks =
        device.loss_blocks == nullptr ? device::LossBlocks{.rows = 0} : device.loss_blocks(options.model.dtype);
    return model::GptActivations::Bytes(options.model, blocks, /*attention_workspace_bytes=*/0) +
           model::ActivationCheckpoints::DeviceBytes(options.model) + device.product_bytes;
  }

  void AddCommunicators(RankNeed& need) const {
    int64_t& on_device = Line(need.device, device::Use::kCommunication);
    on_device += surroundings.device.own_bytes;
    std::vector<int> communicators = {surroundings.world_size};
    if (work == RoomWork::kTraining) {
      for (const int ranks : zero::SplitSizes(options.engine, surroundings.world_size)) communicators.push_back(ranks);
    }
    for (const int ranks : communicators) {
      const comm::BackendMemory memory = surroundings.OfCommunicator(ranks);
      on_device += memory.device_bytes;
      Line(need.staged, device::Use::kCommunication) += memory.host_bytes;
    }
  }

  void AddData(int rank, RankNeed& need) const {
    const RunDataBytes data = DataBytesOf(options, surroundings.world_size, rank);
    const RunDataBytes evaluation = EvaluationBytesOf(options, surroundings.world_size, surroundings.evaluation);
    Line(need.device, device::Use::kData) = data.device + evaluation.device;
    Line(need.staged, device::Use::kData) = data.host + evaluation.host;
  }

  static RankReport ReportOf(int rank, const RankNeed& need) {
    RankReport report;
    report.rank = rank;
    for (size_t use = 0; use < need.device.size(); ++use) {
      report.ledger[use].now = need.device[use].now + need.staged[use].now;
    }
    report.host_ledger = need.host;
    return report;
  }

  int64_t In(const Room& room) const {
    int64_t bytes = 0;
    for (const int rank : room.ranks) {
      const RankNeed need = Of(rank);
      if (room.parts != RoomParts::kHost) bytes += Sum(need.device);
      if (room.parts != RoomParts::kDevice) bytes += Sum(need.host) + Sum(need.staged);
    }
    return bytes;
  }

  std::string Table(RoomParts parts) const {
    if (work == RoomWork::kStepFloor) return FloorTable();
    std::vector<RankReport> reports;
    int64_t staged = 0;
    for (int rank = 0; rank < surroundings.world_size; ++rank) {
      const RankNeed need = Of(rank);
      reports.push_back(ReportOf(rank, need));
      staged = std::max(staged, Sum(need.staged));
    }
    const std::string table = MemoryTable(layout, options.engine, reports, "needed");
    if (parts == RoomParts::kBoth) return table;
    return absl::StrFormat("%s%-22s%10.2f\n", table, "of it, in host memory", static_cast<double>(staged) / 1e6);
  }

  // Of one stage alone, and every rank's the same.
  std::string FloorTable() const {
    const RankReport report = ReportOf(0, Of(0));
    device::MemoryLedger ledger;
    for (int use = 0; use < device::kUses; ++use) {
      ledger.Predict(static_cast<device::Use>(use), report.ledger[static_cast<size_t>(use)].now);
    }
    return ledger.Table();
  }
};

absl::StatusOr<Need> NeedOf(RunOptions options, const Surroundings& surroundings, RoomWork work) {
  const int world_size = surroundings.world_size;
  ZS_RETURN_IF_ERROR(zero::Validate(options.engine));
  ZS_ASSIGN_OR_RETURN(options, Settle(std::move(options), world_size));
  ZS_ASSIGN_OR_RETURN(const std::vector<model::UnitSpec> units, model::GptUnits(options.model));
  ZS_ASSIGN_OR_RETURN(zero::Layout layout, zero::Layout::Create(units, zero::LayoutOptionsOf(options.engine, world_size)));
  return Need{std::move(layout), std::move(options), surroundings, work};
}

std::string Size(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  return value < 1e9 ? absl::StrFormat("%.1f MB", value / 1e6) : absl::StrFormat("%.1f GB", value / 1e9);
}

// What would need less than `need`, each by itself, with what it would need.
std::string Remedies(const RunOptions& options, const Need& need, const Room& room) {
  const Surroundings& surroundings = need.surroundings;
  const int64_t bytes = need.In(room);
  std::vector<std::string> remedies;
  const auto add = [&](std::string_view flag, auto change) {
    RunOptions changed = options;
    change(changed);
    const absl::StatusOr<Need> less = NeedOf(std::move(changed), surroundings, need.work);
    if (!less.ok() || less->In(room) >= bytes) return;
    remedies.push_back(absl::StrCat(std::string(flag), " (", Size(less->In(room)), ")"));
  };
  add("--stage=3", [](RunOptions& o) { o.engine.stage = 3; });
  add("--offload_optimizer=cpu", [](RunOptions& o) { o.engine.offload_optimizer.target = zero::OffloadTarget::kHost; });
  add("--activation_checkpoint_every=1", [](RunOptions& o) { o.model.checkpoint_every = 1; });
  add("--batch=1", [&](RunOptions& o) { o.rows = surroundings.world_size; });
  remedies.emplace_back("a smaller model");
  if (options.engine.stage > 0 && need.work == RoomWork::kTraining) remedies.emplace_back("more GPUs or machines");
  return absl::StrJoin(remedies, ", ");
}

}  // namespace

absl::Status CheckRoom(const RunOptions& options, const Surroundings& surroundings, const Room& room, RoomWork work) {
  ZS_ASSIGN_OR_RETURN(const Need need, NeedOf(options, surroundings, work));
  const int64_t bytes = need.In(room);
  if (bytes <= room.bytes) return absl::OkStatus();
  return NoRoom(room, bytes, Remedies(options, need, room), need.Table(room.parts));
}

absl::StatusOr<RankReport> SureMemory(const RunOptions& options, const Surroundings& surroundings, int rank, RoomWork work) {
  ZS_ASSIGN_OR_RETURN(const Need need, NeedOf(options, surroundings, work));
  return need.ReportOf(rank, need.Of(rank));
}

absl::Status NoRoom(const Room& room, int64_t bytes, std::string_view remedies, std::string_view table) {
  const std::string who =
      room.ranks.size() == 1 ? "a rank needs " : absl::StrCat(room.ranks.size(), " ranks together need ");
  return absl::InvalidArgumentError(absl::StrCat(who, Size(bytes), " or more, and ",
                                                 absl::Substitute(room.says, Size(room.bytes)), "; less is needed with ",
                                                 std::string(remedies), "\n", std::string(table)));
}

}  // namespace zeroshard::trainer
