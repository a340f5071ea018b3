#include "zeroshard/device/scoped_span.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::device {
namespace {

std::vector<std::string>& Told() {
  static auto& told = *new std::vector<std::string>;
  return told;
}

constexpr RangeMarks kMarks = {.push = [](const char* name) { Told().emplace_back(name); },
                               .pop = [] { Told().emplace_back("."); }};

TEST(ScopedSpan, TellsTheProfilerOfSpansWhileTracing) {
  const auto device = MakeCpuDevice();
  const auto stream = device->MakeStream(StreamKind::kCompute);
  Recorder& recorder = device->recorder();
  recorder.MarkRanges(&kMarks);
  recorder.Reserve(3);
  const auto run = [&](Recorder::Mode mode) {
    Told().clear();
    recorder.Turn(mode);
    const ScopedSpan step(*device, SpanKind::kStep);
    const ScopedSpan forward(*stream, SpanKind::kForward, "h.3");
  };
  run(Recorder::Mode::kOff);
  EXPECT_EQ(Told(), std::vector<std::string>());
  run(Recorder::Mode::kSpans);
  EXPECT_EQ(Told(), std::vector<std::string>());
  // The second finds no room, and is told of all the same.
  run(Recorder::Mode::kTrace);
  EXPECT_EQ(recorder.dropped(), 1);
  EXPECT_EQ(Told(), std::vector<std::string>({"step", "forward h.3", ".", "."}));
}

TEST(ScopedSpan, CutsALongLabelOff) {
  const auto device = MakeCpuDevice();
  device->recorder().MarkRanges(&kMarks);
  device->recorder().Turn(Recorder::Mode::kTrace);
  Told().clear();
  { const ScopedSpan span(*device, SpanKind::kRead, std::string(100, 'x')); }
  EXPECT_EQ(Told(), std::vector<std::string>({"read " + std::string(58, 'x'), "."}));
}

}  // namespace
}  // namespace zeroshard::device
