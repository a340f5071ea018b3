#include "zeroshard/device/memory_ledger.h"

#include "absl/strings/str_format.h"

namespace zeroshard::device {

std::string_view Name(Use use) {
  switch (use) {
    case Use::kParameters:
      return "parameters";
    case Use::kGradients:
      return "gradients";
    case Use::kMasterWeights:
      return "master_weights";
    case Use::kMoments:
      return "moments";
    case Use::kActivations:
      return "activations";
    case Use::kCommunication:
      return "communication";
    case Use::kData:
      return "data";
  }
  return "unknown";
}

void MemoryLedger::Charge(Use use, int64_t bytes) {
  Entry& entry = entries_[Index(use)];
  charges_.fetch_add(1, std::memory_order_relaxed);
  const int64_t now = entry.now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = entry.peak.load(std::memory_order_relaxed);
  while (now > peak && !entry.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void MemoryLedger::Credit(Use use, int64_t bytes) { entries_[Index(use)].now.fetch_sub(bytes, std::memory_order_relaxed); }

void MemoryLedger::Predict(Use use, int64_t bytes) {
  entries_[Index(use)].predicted.fetch_add(bytes, std::memory_order_relaxed);
}

std::string MemoryLedger::Table() const {
  std::string table = absl::StrFormat("%-16s %16s %16s %16s\n", "bytes", "now", "peak", "predicted");
  for (int i = 0; i < kUses; ++i) {
    const Use use = static_cast<Use>(i);
    absl::StrAppendFormat(&table, "%-16s %16d %16d %16d\n", std::string(Name(use)), now(use), peak(use), predicted(use));
  }
  return table;
}

}  // namespace zeroshard::device
