// Spans as NVTX ranges, which Nsight Systems shows above what their thread queued. Without a profiler a range is a branch.
//
// Example:
//   recorder().MarkRanges(&ProfilerRanges());
#pragma once

#include "zeroshard/device/recorder.h"

namespace zeroshard::device::cuda {

const RangeMarks& ProfilerRanges();

}  // namespace zeroshard::device::cuda
