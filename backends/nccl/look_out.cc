#include "zeroshard/backends/nccl/look_out.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/comm/last_operation.h"

namespace zeroshard::backends {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);
constexpr absl::Duration kLookForTheDead = absl::Seconds(2);  // a look takes up to as long
constexpr absl::Duration kLeftBehind = absl::Seconds(1);      // how long an operation may go on after a rank has left
constexpr absl::Duration kGrace = absl::Seconds(2);           // for the others' answers after a deadline

}  // namespace

absl::Status Explained(const comm::OperationHeader& operation, const std::string& group, const absl::Status& why,
                       comm::RankWatch* watch) {
  std::string who;
  if (watch != nullptr && (absl::IsDeadlineExceeded(why) || absl::IsUnavailable(why)) &&
      !absl::StrContains(why.message(), comm::kItsLastOperation)) {
    who = watch->WhoIsMissing();
  }
  const int64_t bytes = operation.count * device::SizeOf(static_cast<device::DType>(operation.in_dtype));
  return absl::Status(
      why.code(),
      absl::StrCat("rank ", operation.rank, ", ", Describe(operation), group.empty() ? "" : absl::StrCat(" in ", group),
                   ", ", bytes, " bytes, over nccl: ", why.message(), who.empty() ? "" : absl::StrCat("; ", who)));
}

Trouble LookOut::Look(const std::optional<Flights::Oldest>& oldest) {
  const absl::Time now = absl::Now();
  if (const absl::Status broken = device_.status(); !broken.ok()) return {broken};
  if (oldest && oldest->began && now - oldest->began_at > timeout_) return {WhoIsLate(oldest->header), oldest->header};
  if (now < next_look_) return {};
  next_look_ = now + kBetweenLooks;
  if (oldest && now - oldest->posted_at > kBetweenLooks) {
    if (const absl::Status error = handle_.AsyncError(); !error.ok()) return {error, oldest->header};
  }
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(news_, {});
}

absl::Status LookOut::WhoIsLate(const comm::OperationHeader& operation) {
  const auto told = std::make_shared<absl::Status>();
  const absl::Duration grace = std::min(timeout_, kGrace);
  const bool answered = store_.Do(
      [&notes = notes_, told, operation, timeout = timeout_, grace] { *told = notes.WhoIsLate(operation, timeout, grace); },
      kAnswerWithin);
  if (answered) return *told;
  return absl::DeadlineExceededError(absl::StrCat("it has not ended within ", absl::FormatDuration(timeout_),
                                                  " of its start on the device; ", notes_.store().Describe(),
                                                  ", where ranks say what they are in, does not answer"));
}

void LookOut::GiveUp(const absl::Status& cause) {
  store_.Do([&notes = notes_, cause] { notes.GiveUp(cause); }, kTellWithin);
}

void LookOut::Leave(absl::Duration patience) {
  store_.Do([&notes = notes_, patience] { notes.Leave(patience); }, kTellWithin + patience);
}

Trouble LookOut::LookAtStore() {
  if (const absl::Status steps = notes_.CheckSteps(); absl::IsFailedPrecondition(steps)) return {steps};
  const std::optional<Flights::Oldest> oldest = flights_.oldest();
  if (!oldest) return {notes_.WhyGivenUp(/*gone=*/false)};
  const absl::Time now = absl::Now();
  if (now - oldest->posted_at < kBetweenLooks) return {};
  const bool stuck = oldest->began && now - oldest->began_at > kLeftBehind;
  if (const absl::Status why = notes_.WhyGivenUp(/*gone=*/stuck); !why.ok()) return {why, oldest->header};
  if (now - oldest->posted_at < kLookForTheDead || now < next_look_for_the_dead_) return {};
  next_look_for_the_dead_ = now + kLookForTheDead;
  const std::string missing = notes_.watch() == nullptr ? "" : notes_.watch()->WhoIsMissing();
  return missing.empty() ? Trouble() : Trouble{absl::UnavailableError(missing), oldest->header};
}

}  // namespace zeroshard::backends
