#include "zeroshard/comm/communicator_family.h"

#include <algorithm>
#include <utility>

namespace zeroshard::comm {

void Communicator::Family::Join(Communicator& member) {
  std::lock_guard<std::mutex> lock(mutex_);
  members_.push_back(&member);
}

void Communicator::Family::Leave(Communicator& member) {
  std::lock_guard<std::mutex> lock(mutex_);
  members_.erase(std::remove(members_.begin(), members_.end(), &member), members_.end());
}

// An abort may tell another rank of this process, which fails in turn and tells this one's members: they all have failed by then, so
// that it does not come here again.
void Communicator::Family::Spread(const absl::Status& cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Communicator*> failed;
  for (Communicator* member : members_) {
    if (member->FailAlone(cause)) failed.push_back(member);
  }
  for (Communicator* member : failed) member->DoAbort(cause);
}

std::shared_ptr<Communicator::Family> Communicator::FamilyOf() const {
  std::lock_guard<std::mutex> lock(error_mutex_);
  return family_;
}

void Communicator::LeaveFamily() { FamilyOf()->Leave(*this); }

void Communicator::JoinFamily(std::shared_ptr<Family> family) {
  family->Join(*this);
  {
    std::lock_guard<std::mutex> lock(error_mutex_);
    family_ = std::move(family);
  }
  if (const absl::Status failed = status(); !failed.ok()) FamilyOf()->Spread(failed);
}

}  // namespace zeroshard::comm
