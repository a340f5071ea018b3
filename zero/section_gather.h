// Makes sections whole on every rank from the parts that the ranks own: an all-gather where parts are equal (Partition::kFlat), a
// broadcast from each owner where they are not (Partition::kTensor).
//
// Example:
//   SectionGather gather(communicator, layout, /*sections=*/{0, 7}, "block.3");
//   Work work = gather.Issue(owned, full, {.after = {&written}});
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/array.h"
#include "zeroshard/zero/layout.h"

namespace zeroshard::zero {

class SectionGather {
 public:
  // `label` names what is gathered in errors; communicator, layout and label outlive this.
  SectionGather(comm::Communicator& communicator, const Layout& layout, std::vector<int> sections, std::string_view label);

  // Collective; returns at once. For the i-th section owned[i] is this rank's part, full[i] the whole of it, of which owned[i] may
  // be a part in its place. The Work's end is the end of all of it.
  comm::Work Issue(std::span<const device::Array> owned, std::span<const device::Array> full, comm::CallOptions options);

  const std::vector<int>& sections() const { return sections_; }
  std::string_view label() const { return label_; }

 private:
  comm::Work AllGather(std::span<const device::Array> owned, std::span<const device::Array> full,
                       const comm::CallOptions& options);
  comm::Work BroadcastFromOwners(std::span<const device::Array> owned, std::span<const device::Array> full,
                                 const comm::CallOptions& options);

  comm::Communicator* communicator_;
  const Layout* layout_;
  std::vector<int> sections_;
  std::string_view label_;
  std::vector<comm::Segment> segments_;
};

}  // namespace zeroshard::zero
