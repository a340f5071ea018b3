#include "zeroshard/trainer/summary.h"

#include <array>
#include <utility>

#include "nlohmann/json.hpp"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/data/output_file.h"

namespace zeroshard::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json Measured(int64_t value) { return value == kNotMeasured ? Json(nullptr) : Json(value); }

Json OfLedger(const std::array<LedgerLine, device::kUses>& lines) {
  Json ledger;
  for (int u = 0; u < device::kUses; ++u) {
    const LedgerLine& line = lines[static_cast<size_t>(u)];
    ledger[std::string(device::Name(static_cast<device::Use>(u)))] = {
        {"now", line.now}, {"peak", line.peak}, {"predicted", line.predicted}};
  }
  return ledger;
}

// What is held beside the ledger, where there is a card.
void AddLine(Json& ledger, const char* line, int64_t bytes) {
  if (bytes != kNotMeasured) ledger[line] = {{"now", bytes}, {"peak", bytes}, {"predicted", nullptr}};
}

Json OfDevice(const RankReport& r) {
  Json ledger = OfLedger(r.ledger);
  AddLine(ledger, "granularity", r.granularity_bytes);
  AddLine(ledger, "vendor_libraries", r.vendor_library_bytes);
  return ledger;
}

Json OfHost(const RankReport& r) {
  Json ledger = OfLedger(r.host_ledger);
  AddLine(ledger, "granularity", r.pinned_granularity_bytes);
  return ledger;
}

Json OfRank(const RankReport& r) {
  return {{"rank", r.rank},
          {"host", r.host.data()},
          {"pid", r.pid},
          {"peak_rss_bytes", Measured(r.peak_rss_bytes)},
          {"mapped_peer_bytes", r.mapped_peer_bytes},
          {"peak_device_bytes", Measured(r.peak_device_bytes)},
          {"ledger", OfDevice(r)},
          {"host_ledger", OfHost(r)},
          {"offload_file_bytes", r.offload_file_bytes},
          {"wire",
           {{"data_bytes_per_step", r.data_bytes_per_step},
            {"predicted_data_bytes_per_step", r.predicted_data_bytes_per_step},
            {"control_bytes_per_step", r.control_bytes_per_step}}},
          {"allocations",
           {{"step_3", Measured(r.step_3)},
            {"last_step", Measured(r.last_step)},
            {"vendor_step_3", Measured(r.vendor_step_3)},
            {"vendor_last_step", Measured(r.vendor_last_step)},
            {"heap_growth_bytes", Measured(r.heap_growth_bytes)}}}};
}

}  // namespace

std::string FormatSummary(const RunSummary& s) {
  Json ranks = Json::array();
  for (const RankReport& rank : s.ranks) ranks.push_back(OfRank(rank));
  Json summary = {{"version", s.version},
                  {"backend", s.backend},
                  {"device", s.device},
                  {"stage", s.stage},
                  {"partition", s.partition},
                  {"dtype", s.dtype},
                  {"world_size", s.ranks.size()},
                  {"parameters", s.parameters},
                  {"steps", s.steps},
                  {"first_loss", s.first_loss},
                  {"last_loss", s.last_loss},
                  {"step_s_median", s.step_s_median},
                  {"tokens_per_s", s.tokens_per_s},
                  {"mfu", s.mfu > 0 ? Json(s.mfu) : Json(nullptr)},
                  {"bits", s.bits},
                  {"ranks", ranks}};
  if (!s.config.empty()) summary["config"] = Json::parse(s.config, nullptr, /*allow_exceptions=*/false);
  // A host's name is bytes of somebody else's choice.
  return summary.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status WriteSummary(const std::string& path, const RunSummary& summary) {
  ZS_ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path));
  ZS_RETURN_IF_ERROR(out.Append(FormatSummary(summary) + "\n"));
  return out.Close();
}

}  // namespace zeroshard::trainer
