// What one rank has to say at the end of a run: memory, wire, allocations, where it ran. Ranks send theirs to all.
//
// Example:
//   RankReport mine = ...;
//   ZS_ASSIGN_OR_RETURN(std::vector<RankReport> all, GatherReports(communicator, mine));
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/memory_ledger.h"

namespace zeroshard::trainer {

inline constexpr int64_t kNotMeasured = -1;

struct LedgerLine {
  int64_t now = 0;
  int64_t peak = 0;
  int64_t predicted = 0;
};

// Numbers and text of fixed size: it travels as bytes.
struct RankReport {
  int64_t rank = 0;
  std::array<char, 64> host = {};
  int64_t pid = 0;
  int64_t peak_rss_bytes = kNotMeasured;
  int64_t mapped_peer_bytes = 0;
  std::array<LedgerLine, device::kUses> ledger = {};       // by device::Use
  std::array<LedgerLine, device::kUses> host_ledger = {};  // of offloaded state: Device::host
  // Of a GPU's memory, beside the ledger (device::CardMemory); kNotMeasured elsewhere.
  int64_t peak_device_bytes = kNotMeasured;
  int64_t granularity_bytes = kNotMeasured;
  int64_t pinned_granularity_bytes = kNotMeasured;
  int64_t vendor_library_bytes = kNotMeasured;
  int64_t offload_file_bytes = 0;
  int64_t data_bytes_per_step = 0;  // of the last step, as the next two
  int64_t predicted_data_bytes_per_step = 0;
  int64_t control_bytes_per_step = 0;
  // Allocations in the third and the last step; kNotMeasured where there was none, or the build does not count.
  int64_t step_3 = kNotMeasured;
  int64_t last_step = kNotMeasured;
  int64_t vendor_step_3 = kNotMeasured;
  int64_t vendor_last_step = kNotMeasured;
  int64_t heap_growth_bytes = kNotMeasured;
};

// Fills in what this process and its ledgers say: host, pid, memory.
void DescribeProcess(device::Device& device, RankReport& report);

// Collective: every rank gets all reports, by rank. Errors: the communicator's.
absl::StatusOr<std::vector<RankReport>> GatherReports(comm::Communicator& communicator, const RankReport& mine);

}  // namespace zeroshard::trainer
