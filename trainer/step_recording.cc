#include "zeroshard/trainer/step_recording.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/trainer/clock_offset.h"
#include "zeroshard/trainer/host_collectives.h"
#include "zeroshard/trainer/trace_file.h"

namespace zeroshard::trainer {
namespace {

using comm::Traffic;
using device::DType;
using device::Recorder;
using device::Span;
using device::Use;

// What a rank says of its spans before it sends them.
struct Announcement {
  int64_t spans = 0;
  int64_t clock_ahead_ns = 0;
  int64_t dropped = 0;
  int64_t pid = 0;
  std::array<char, 64> host = {};
};

TraceRank RankOf(int rank, const Announcement& a) {
  return {.rank = rank, .host = a.host.data(), .pid = a.pid, .clock_ahead_ns = a.clock_ahead_ns, .dropped = a.dropped};
}

std::span<const Span> SpansOf(const Recorder& recorder, int64_t first, int64_t end) {
  if (first >= end) return {};
  return {&recorder.span(first), static_cast<size_t>(end - first)};
}

// Collective: rank `root`'s spans, on rank 0, which has its own already.
absl::StatusOr<std::vector<Span>> Fetch(comm::Communicator& communicator, int root, int64_t count,
                                        std::span<const Span> mine) {
  device::Device& device = communicator.device();
  if (root == 0) return std::vector<Span>(mine.begin(), communicator.rank() == 0 ? mine.end() : mine.begin());
  std::vector<Span> spans(communicator.rank() == 0 ? static_cast<size_t>(count) : 0);
  if (count == 0) return spans;
  ZS_ASSIGN_OR_RETURN(const device::Buffer buffer,
                      device.Allocate(count * static_cast<int64_t>(sizeof(Span)), Use::kData, "spans of a rank"));
  const device::Array bytes = buffer.array(DType::kUint8);
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  if (communicator.rank() == root) device.CopyFromHost(*stream, mine.data(), bytes);
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(
      communicator.Broadcast(bytes, bytes, root, {.wait_at_once = true, .traffic = Traffic::kControl, .label = "trace"})
          .Wait());
  if (communicator.rank() == 0) device.CopyToHost(*stream, bytes, spans.data());
  stream->Synchronize();
  ZS_RETURN_IF_ERROR(device.status());
  return spans;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepRecording>> StepRecording::Create(comm::Communicator& communicator,
                                                                     const RecordingOptions& options,
                                                                     int64_t spans_per_step) {
  std::unique_ptr<StepRecording> recording(new StepRecording(communicator, options));
  if (options.trace_path.empty()) recording->options_.last = recording->options_.first - 1;
  const int64_t traced = std::max<int64_t>(0, recording->options_.last - recording->options_.first + 1);
  const int64_t spans =
      std::min(kMostSpans, traced * spans_per_step) + (options.breakdown ? std::min(kMostSpans, spans_per_step) : 0);
  device::Device& device = communicator.device();
  device.recorder().Rewind(0);
  device.recorder().Reserve(spans);
  recording->charged_bytes_ = spans * static_cast<int64_t>(sizeof(Span));
  device.host().ledger().Charge(Use::kData, recording->charged_bytes_);
  device.host().ledger().Predict(Use::kData, recording->charged_bytes_);
  if (traced > 0) {
    ZS_ASSIGN_OR_RETURN(recording->clock_ahead_ns_, MeasureClockOffset(communicator));
  } else {
    recording->written_ = true;
  }
  return recording;
}

StepRecording::~StepRecording() {
  communicator_.device().recorder().Turn(Recorder::Mode::kOff);
  communicator_.device().recorder().SetStep(-1);
  communicator_.device().host().ledger().Credit(Use::kData, charged_bytes_);
}

void StepRecording::BeginStep(int64_t step) {
  Recorder& recorder = communicator_.device().recorder();
  // Of an earlier step only what is traced stays.
  if (options_.breakdown && !Traced(step)) recorder.Rewind(kept_);
  step_begin_ = recorder.size();
  recorder.SetStep(step);
  recorder.Turn(Traced(step) && !written_ ? Recorder::Mode::kTrace
                : options_.breakdown      ? Recorder::Mode::kSpans
                                          : Recorder::Mode::kOff);
}

StepBreakdown StepRecording::Breakdown() const {
  const Recorder& recorder = communicator_.device().recorder();
  return BreakDown(SpansOf(recorder, step_begin_, recorder.size()));
}

absl::Status StepRecording::EndStep(int64_t step) {
  if (Traced(step)) kept_ = communicator_.device().recorder().size();
  return step == options_.last ? Finish() : absl::OkStatus();
}

absl::Status StepRecording::Finish() {
  if (std::exchange(written_, true)) return absl::OkStatus();
  return Collect();
}

absl::Status StepRecording::Collect() {
  Recorder& recorder = communicator_.device().recorder();
  recorder.Turn(Recorder::Mode::kOff);
  // Operations run in the order of issue: after this one, all that the trace saw have ended.
  Announcement mine = {
      .spans = kept_, .clock_ahead_ns = clock_ahead_ns_, .dropped = recorder.dropped(), .pid = getpid(), .host = {}};
  gethostname(mine.host.data(), mine.host.size() - 1);
  ZS_ASSIGN_OR_RETURN(const std::vector<Announcement> ranks, GatherRecords(communicator_, mine, "trace"));
  std::optional<TraceFile> file;
  if (communicator_.rank() == 0) {
    auto created = TraceFile::Create(options_.trace_path);
    file_status_ = created.status();
    if (created.ok()) file.emplace(*std::move(created));
  }
  for (int rank = 0; rank < communicator_.world_size(); ++rank) {
    const Announcement& announced = ranks[static_cast<size_t>(rank)];
    ZS_ASSIGN_OR_RETURN(const std::vector<Span> spans,
                        Fetch(communicator_, rank, announced.spans, SpansOf(recorder, 0, kept_)));
    if (file) file_status_.Update(file->AddRank(RankOf(rank, announced), spans, device::NowNs()));
  }
  if (file) file_status_.Update(file->Close());
  recorder.Rewind(0);
  kept_ = 0;
  return absl::OkStatus();
}

void StepRecording::Salvage() {
  Recorder& recorder = communicator_.device().recorder();
  recorder.Turn(Recorder::Mode::kOff);
  if (std::exchange(written_, true) || recorder.size() == 0) return;
  const int rank = communicator_.rank();
  auto file = TraceFile::Create(rank == 0 ? options_.trace_path : absl::StrCat(options_.trace_path, ".rank-", rank));
  file_status_ = file.status();
  if (!file.ok()) return;
  const TraceRank about = {
      .rank = rank, .host = {}, .pid = getpid(), .clock_ahead_ns = clock_ahead_ns_, .dropped = recorder.dropped()};
  file_status_.Update(file->AddRank(about, SpansOf(recorder, 0, recorder.size()), device::NowNs()));
  file_status_.Update(file->Close());
}

}  // namespace zeroshard::trainer
