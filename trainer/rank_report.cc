#include "zeroshard/trainer/rank_report.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <type_traits>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/progress.h"

namespace zeroshard::trainer {

static_assert(std::is_trivially_copyable_v<RankReport>);

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
  report.vendor_library_bytes = card->vendor_bytes;
}

absl::StatusOr<std::vector<RankReport>> GatherReports(comm::Communicator& communicator, const RankReport& mine) {
  device::Device& device = communicator.device();
  const int64_t bytes = sizeof(RankReport);
  ZS_ASSIGN_OR_RETURN(const device::Buffer one, device.Allocate(bytes, device::Use::kData, "report of this rank"));
  ZS_ASSIGN_OR_RETURN(const device::Buffer all,
                      device.Allocate(bytes * communicator.world_size(), device::Use::kData, "reports of all ranks"));
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  const device::Array in = one.array(device::DType::kUint8), out = all.array(device::DType::kUint8);
  device.CopyFromHost(*stream, &mine, in);
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(
      communicator.AllGather(in, out, {.wait_at_once = true, .traffic = comm::Traffic::kControl, .label = "report"}).Wait());
  std::vector<RankReport> reports(static_cast<size_t>(communicator.world_size()));
  device.CopyToHost(*stream, out, reports.data());
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(device.status());
  return reports;
}

}  // namespace zeroshard::trainer
