#include "zeroshard/zero/section_gather.h"

#include <utility>

namespace zeroshard::zero {

SectionGather::SectionGather(comm::Communicator& communicator, const Layout& layout, std::vector<int> sections,
                             std::string_view label)
    : communicator_(&communicator), layout_(&layout), sections_(std::move(sections)), label_(label) {
  const bool flat = layout.options().partition == Partition::kFlat;
  segments_.reserve(sections_.size() * (flat ? 1 : layout.world_size()));
}

comm::Work SectionGather::Issue(std::span<const device::Array> owned, std::span<const device::Array> full,
                                comm::CallOptions options) {
  if (sections_.empty()) return {};
  options.label = label_;
  segments_.clear();
  return layout_->options().partition == Partition::kFlat ? AllGather(owned, full, options)
                                                          : BroadcastFromOwners(owned, full, options);
}

comm::Work SectionGather::AllGather(std::span<const device::Array> owned, std::span<const device::Array> full,
                                    const comm::CallOptions& options) {
  for (size_t i = 0; i < sections_.size(); ++i) {
    segments_.push_back({.in = owned[i], .out = full[i], .stride = owned[i].elements()});
  }
  return communicator_->AllGather(segments_, options);
}

comm::Work SectionGather::BroadcastFromOwners(std::span<const device::Array> owned, std::span<const device::Array> full,
                                              const comm::CallOptions& options) {
  comm::Work last;
  for (int owner = 0; owner < layout_->world_size(); ++owner) {
    const size_t begin = segments_.size();
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Range part = layout_->sections()[sections_[i]].Owned(owner);
      if (part.count == 0) continue;
      segments_.push_back(
          {.in = owner == communicator_->rank() ? owned[i] : device::Array(), .out = full[i].Slice(part.first, part.count)});
    }
    const std::span<const comm::Segment> of_owner = std::span(segments_).subspan(begin);
    if (!of_owner.empty()) last = communicator_->Broadcast(of_owner, owner, options);
  }
  return last;
}

}  // namespace zeroshard::zero
