#include "zeroshard/backends/nccl/look_out.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "zeroshard/comm/last_operation.h"

namespace zeroshard::backends {
namespace {

constexpr absl::Duration kLookAtStore = absl::Milliseconds(100);
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
  if (oldest && oldest->began && now - oldest->began_at > timeout_) {
    return {notes_.WhoIsLate(oldest->header, timeout_, std::min(timeout_, kGrace)), /*in_flight=*/true};
  }
  if (now < next_look_) return {};
  next_look_ = now + kLookAtStore;
  if (const absl::Status steps = notes_.CheckSteps(); absl::IsFailedPrecondition(steps)) return {steps};
  if (!oldest) return {notes_.WhyGivenUp(/*gone=*/false)};
  if (now - oldest->posted_at < kLookAtStore) return {};
  if (const absl::Status error = handle_.AsyncError(); !error.ok()) return {error, /*in_flight=*/true};
  const bool stuck = oldest->began && now - oldest->began_at > kLeftBehind;
  if (const absl::Status why = notes_.WhyGivenUp(/*gone=*/stuck); !why.ok()) return {why, /*in_flight=*/true};
  if (now - oldest->posted_at < kLookForTheDead || now < next_look_for_the_dead_) return {};
  next_look_for_the_dead_ = now + kLookForTheDead;
  const std::string missing = notes_.watch() == nullptr ? "" : notes_.watch()->WhoIsMissing();
  return missing.empty() ? Trouble() : Trouble{absl::UnavailableError(missing), /*in_flight=*/true};
}

}  // namespace zeroshard::backends
