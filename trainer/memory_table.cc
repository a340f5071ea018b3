#include "zeroshard/trainer/memory_table.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "zeroshard/zero/formulas.h"

namespace zeroshard::trainer {
namespace {

constexpr int kStages = 4;
using Column = std::array<int64_t, device::kUses>;

Column Held(const std::vector<RankReport>& reports) {
  Column most = {};
  for (const RankReport& report : reports) {
    for (size_t u = 0; u < most.size(); ++u) most[u] = std::max(most[u], report.ledger[u].now);
  }
  return most;
}

// The most that any rank's engine holds in a stage.
Column EngineHolds(const zero::Layout& layout, zero::EngineOptions options, int stage) {
  options.stage = stage;
  Column most = {};
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const zero::MemoryBytes bytes = zero::PredictMemory(layout, options, rank);
    const auto hold = [&most](device::Use use, int64_t value) {
      int64_t& entry = most[static_cast<size_t>(use)];
      entry = std::max(entry, value);
    };
    hold(device::Use::kParameters, bytes.parameters);
    hold(device::Use::kGradients, bytes.gradients);
    hold(device::Use::kMasterWeights, bytes.master_weights);
    hold(device::Use::kMoments, bytes.moments);
    hold(device::Use::kCommunication, bytes.communication);
  }
  return most;
}

std::string Row(const std::string& name, const std::array<int64_t, kStages + 1>& bytes) {
  std::string row = absl::StrFormat("%-22s", name);
  for (const int64_t b : bytes) {
    constexpr int64_t kTerabyte = 1'000'000'000'000;
    absl::StrAppendFormat(&row, "%10.*f", b < kTerabyte ? 2 : 0, static_cast<double>(b) / 1e6);
  }
  return row + "\n";
}

// What lies outside device memory, of the rank that has most; nothing without offload.
std::string HostRow(const zero::Layout& layout, zero::EngineOptions options, const std::vector<RankReport>& reports) {
  if (!zero::Offloads(options)) return "";
  std::array<int64_t, kStages + 1> bytes = {};
  for (const RankReport& report : reports) {
    int64_t held = 0;
    for (const LedgerLine& line : report.host_ledger) held += line.now;
    bytes[0] = std::max(bytes[0], held);
  }
  for (int stage = 0; stage < kStages; ++stage) {
    options.stage = stage;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const zero::MemoryBytes host = zero::PredictHostMemory(layout, options, rank);
      bytes[static_cast<size_t>(stage) + 1] =
          std::max(bytes[static_cast<size_t>(stage) + 1],
                   host.parameters + host.gradients + host.master_weights + host.moments + host.communication);
    }
  }
  return Row("offloaded, in host", bytes);
}

}  // namespace

std::string MemoryTable(const zero::Layout& layout, const zero::EngineOptions& options,
                        const std::vector<RankReport>& reports, std::string_view first) {
  std::array<Column, kStages + 1> columns;
  columns[0] = Held(reports);
  std::string table = absl::StrFormat("%-22s%10s", "MB of a rank", std::string(first));
  for (int stage = 0; stage < kStages; ++stage) {
    // What the engine does not hold (activations, the collectives' scratch) is the same in each stage.
    const Column now = EngineHolds(layout, options, options.stage), then = EngineHolds(layout, options, stage);
    for (size_t u = 0; u < now.size(); ++u) columns[static_cast<size_t>(stage) + 1][u] = columns[0][u] - now[u] + then[u];
    absl::StrAppendFormat(&table, "%10s", absl::StrCat(stage == options.stage ? "*" : "", "stage ", stage));
  }
  table += "\n";
  std::array<int64_t, kStages + 1> total = {};
  for (size_t u = 0; u < columns[0].size(); ++u) {
    std::array<int64_t, kStages + 1> bytes;
    for (size_t c = 0; c < bytes.size(); ++c) total[c] += bytes[c] = columns[c][u];
    std::string name(device::Name(static_cast<device::Use>(u)));
    std::replace(name.begin(), name.end(), '_', ' ');
    table += Row(name, bytes);
  }
  return table + Row("total", total) + HostRow(layout, options, reports);
}

}  // namespace zeroshard::trainer
