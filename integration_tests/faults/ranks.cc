#include "zeroshard/integration_tests/faults/ranks.h"

#include <sys/mman.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace zeroshard::integration_tests {

Ranks::Ranks() {
  void* const memory = mmap(nullptr, kMost * sizeof(RankReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ADD_FAILURE() << "mmap failed";
  reports_ = static_cast<RankReport*>(memory);
  for (int rank = 0; rank < kMost; ++rank) new (&reports_[rank]) RankReport;
}

Ranks::~Ranks() { munmap(reports_, kMost * sizeof(RankReport)); }

bool Ranks::Ended(int rank, int64_t limit_ms) {
  while (report(rank).ended_ms == 0 && NowMs() < limit_ms) usleep(2000);
  return report(rank).ended_ms != 0;
}

bool Ranks::AwaitOperations(int rank, int64_t count) {
  const int64_t limit_ms = NowMs() + 30000;
  while (report(rank).operations < count && report(rank).ended_ms == 0 && NowMs() < limit_ms) usleep(500);
  return report(rank).operations >= count;
}

void Ranks::Note(RankReport& report, const absl::Status& ended) {
  report.code = ended.code();
  absl::string_view(ended.message()).copy(report.message, sizeof(report.message) - 1);
  report.ended_ms = NowMs();
}

}  // namespace zeroshard::integration_tests
