#include "zeroshard/device/recorder.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace zeroshard::device {
namespace {

TEST(Recorder, KeepsNoSpanWhileOff) {
  Recorder recorder;
  recorder.Reserve(4);
  EXPECT_EQ(recorder.Begin(SpanKind::kForward, 0, "h.0"), nullptr);
  EXPECT_EQ(recorder.size(), 0);
}

TEST(Recorder, CountsWhatHasNoRoom) {
  Recorder recorder;
  recorder.Reserve(2);
  recorder.Turn(Recorder::Mode::kSpans);
  recorder.SetStep(7);
  for (int i = 0; i < 5; ++i) recorder.Begin(SpanKind::kForward, 0, "h." + std::to_string(i));
  EXPECT_EQ(recorder.size(), 2);
  EXPECT_EQ(recorder.dropped(), 3);
  EXPECT_EQ(View(recorder.span(1).label), "h.1");
  EXPECT_EQ(recorder.span(1).step, 7);
}

TEST(Recorder, RewindMakesRoomAgain) {
  Recorder recorder;
  recorder.Reserve(2);
  recorder.Turn(Recorder::Mode::kSpans);
  for (int i = 0; i < 2; ++i) recorder.Begin(SpanKind::kForward, 0, "old");
  recorder.Rewind(1);
  EXPECT_NE(recorder.Begin(SpanKind::kBackward, 0, "new"), nullptr);
  EXPECT_EQ(View(recorder.span(0).label), "old");
  EXPECT_EQ(View(recorder.span(1).label), "new");
}

TEST(Recorder, FlightHoldsTheLatestOperationsOldestFirst) {
  Recorder recorder;
  for (uint64_t i = 1; i <= 1000; ++i) {
    const Recorder::Open open =
        recorder.Issue({.name = "all-gather", .label = "h.1", .sequence = i, .count = 3, .bytes = 12});
    if (i < 1000) Recorder::Began(open, 0);
    if (i < 999) Recorder::Ended(open);
  }
  const std::vector<Span> flight = recorder.Flight();
  ASSERT_EQ(flight.size(), size_t{Recorder::kFlight});
  EXPECT_EQ(flight.front().sequence, 1000u - Recorder::kFlight + 1);
  EXPECT_EQ(flight.back().sequence, 1000u);
  EXPECT_EQ(View(flight.back().name), "all-gather");
  EXPECT_GE(flight[0].ended_ns, flight[0].begun_ns);
  EXPECT_NE(flight[Recorder::kFlight - 2].begun_ns, 0);
  EXPECT_EQ(flight[Recorder::kFlight - 2].ended_ns, 0);
  EXPECT_EQ(flight.back().begun_ns, 0);
  EXPECT_EQ(recorder.LastOperation().sequence, 999u);  // 1000 has not begun
}

TEST(Recorder, OperationsAreSpansWhereTracing) {
  Recorder recorder;
  recorder.Reserve(8);
  for (const Recorder::Mode mode : {Recorder::Mode::kOff, Recorder::Mode::kSpans, Recorder::Mode::kTrace}) {
    recorder.Turn(mode);
    const Recorder::Open open = recorder.Issue({.name = "broadcast", .label = "x", .sequence = 9});
    Recorder::Began(open, 5);
    Recorder::Ended(open);
    Recorder::Ended(open);
  }
  ASSERT_EQ(recorder.size(), 1);
  EXPECT_EQ(recorder.span(0).kind, SpanKind::kCollective);
  EXPECT_EQ(recorder.span(0).ready_ns, 5);
  EXPECT_GE(recorder.span(0).ended_ns, recorder.span(0).begun_ns);
}

TEST(Recorder, FlightMayBeReadWhileOthersRecord) {
  Recorder recorder;
  std::thread others([&] {
    for (uint64_t i = 1; i <= 20'000; ++i) {
      const Recorder::Open open = recorder.Issue({.name = "reduce", .sequence = i});
      Recorder::Began(open, 0);
      Recorder::Ended(open);
    }
  });
  for (int i = 0; i < 200; ++i) {
    const std::vector<Span> flight = recorder.Flight();
    for (size_t j = 1; j < flight.size(); ++j) EXPECT_EQ(flight[j].sequence, flight[j - 1].sequence + 1);
  }
  others.join();
}

TEST(Recorder, ABriefOperationIsOfTheStepInWhichItWasIssued) {
  Recorder recorder;
  recorder.SetStep(3);
  const Recorder::Open brief = recorder.IssueBrief();
  EXPECT_EQ(brief.step, 3);
  recorder.SetStep(4);
  recorder.BeganBrief(brief, {.name = "barrier", .sequence = 1}, 0);
  EXPECT_EQ(recorder.LastOperation().step, 3);
  EXPECT_EQ(recorder.Issue({.name = "reduce", .sequence = 2}).step, 4);
}

TEST(Recorder, ABriefOperationIsRecordedInItsPlaceWhenItBegins) {
  Recorder recorder;
  const Recorder::Open brief = recorder.IssueBrief();
  const Recorder::Open later = recorder.Issue({.name = "all-gather", .sequence = 2});
  ASSERT_EQ(recorder.Flight().size(), 1u);
  Recorder::Ended(brief);  // Of no entry.
  const int64_t begun = recorder.BeganBrief(brief, {.name = "barrier", .sequence = 1}, 0);
  EXPECT_EQ(recorder.LastOperation().sequence, 1u);
  Recorder::Began(later, 0);
  EXPECT_EQ(recorder.LastOperation().sequence, 2u);
  Recorder::Ended(brief);
  const std::vector<Span> flight = recorder.Flight();
  ASSERT_EQ(flight.size(), 2u);
  EXPECT_EQ(View(flight[0].name), "barrier");
  EXPECT_EQ(flight[0].issued_ns, begun);
  EXPECT_EQ(flight[0].begun_ns, begun);
  EXPECT_GE(flight[0].ended_ns, begun);
  EXPECT_EQ(flight[1].ended_ns, 0);
}

TEST(Recorder, ABriefOperationThatBeginsLateDisturbsNoLaterOne) {
  Recorder recorder;
  const Recorder::Open brief = recorder.IssueBrief();
  for (uint64_t i = 1; i <= 2 * Recorder::kFlight; ++i) recorder.Issue({.name = "reduce", .sequence = i});
  recorder.BeganBrief(brief, {.name = "barrier", .sequence = 1000}, 0);
  Recorder::Ended(brief);
  EXPECT_EQ(recorder.Flight().back().sequence, 2u * Recorder::kFlight);
  EXPECT_EQ(recorder.LastOperation().id, 0u);
}

TEST(FixedText, CutsWhatIsTooLong) {
  FixedText<4> text = {};
  Assign(text, "abcdef");
  EXPECT_EQ(View(text), "abcd");
  Assign(text, "xy");
  EXPECT_EQ(View(text), "xy");
}

TEST(Recorder, TracksOfCommunicatorsComeBack) {
  Recorder recorder;
  const Track first = recorder.TakeTrack();
  const Track second = recorder.TakeTrack();
  EXPECT_NE(first, second);
  recorder.GiveTrackBack(first);
  EXPECT_EQ(recorder.TakeTrack(), first);
  for (int i = 0; i < 1000; ++i) recorder.TakeTrack();
}

}  // namespace
}  // namespace zeroshard::device
