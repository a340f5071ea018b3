#include "zeroshard/trainer/rank_report.h"

#include <unistd.h>

#include <optional>

#include "zeroshard/trainer/host_collectives.h"
#include "zeroshard/trainer/progress.h"

namespace zeroshard::trainer {

void DescribeProcess(device::Device& device, RankReport& report) {
  gethostname(report.host.data(), report.host.size() - 1);
  report.pid = getpid();
  report.peak_rss_bytes = PeakResidentBytes();
  const auto read = [](const device::MemoryLedger& ledger, auto& lines) {
    for (int u = 0; u < device::kUses; ++u) {
      const auto use = static_cast<device::Use>(u);
      lines[static_cast<size_t>(u)] = {ledger.now(use), ledger.peak(use), ledger.predicted(use)};
    }
  };
  read(device.ledger(), report.ledger);
  read(device.host().ledger(), report.host_ledger);
  const std::optional<device::CardMemory> card = device.card_memory();
  if (!card) return;
  report.peak_device_bytes = card->peak_bytes;
  report.granularity_bytes = card->granularity_bytes;
  report.pinned_granularity_bytes = card->pinned_granularity_bytes;
  report.vendor_library_bytes = card->vendor_bytes;
}

absl::StatusOr<std::vector<RankReport>> GatherReports(comm::Communicator& communicator, const RankReport& mine) {
  return GatherRecords(communicator, mine, "report");
}

}  // namespace zeroshard::trainer
