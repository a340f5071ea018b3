#include "zeroshard/device/cuda/profiler_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace zeroshard::device::cuda {

const RangeMarks& ProfilerRanges() {
  static constexpr RangeMarks kMarks = {.push = [](const char* name) { nvtxRangePushA(name); },
                                        .pop = [] { nvtxRangePop(); }};
  return kMarks;
}

}  // namespace zeroshard::device::cuda
