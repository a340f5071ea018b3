// The update of a step whose masters and moments live in host memory or in a file, and which is made by the host's cores.
//
// ZeRO-Offload: Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training"; ZeRO-Infinity: Rajbhandari et al.,
// "ZeRO-Infinity: Breaking the GPU Memory Wall for Extreme Scale Deep Learning".
//
// Sub-group by sub-group (offload_plan.h), on a thread of its own: its gradients come down, where they are not in host memory
// yet (host_gradients.h), and fp32 parameters, which are their own masters, where they are in device memory; its state is
// fetched, the optimizer runs, the new parameters go up, the state is stored. While one is updated, the next one comes and the
// last one goes:
//
//   copy down   | g0 | g1 | g2 |    |
//   host        |    | g0 | g1 | g2 |
//   copy up     |    |    | g0 | g1 | g2
//
// The share of the state that stays in device memory (offload_ratio below 1) is updated there in the meantime. As soon as a section's
// last sub-group has gone up, what stays whole of it is gathered (ParameterStore::WrittenBefore). A step that is skipped moves
// nothing. The passes are the same kernels over the same elements as without offload, and so are the bits.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(std::unique_ptr<UpdatePass> pass, OffloadedUpdate::Create(device, layout, options, rank, compute));
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/device.h"
#include "zeroshard/device/first_error.h"
#include "zeroshard/device/stream.h"
#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/engine_options.h"
#include "zeroshard/zero/offload/host_thread.h"
#include "zeroshard/zero/offload/offload_plan.h"
#include "zeroshard/zero/offload/state_tier.h"
#include "zeroshard/zero/parts.h"
#include "zeroshard/zero/precision.h"
#include "zeroshard/zero/update_pass.h"

namespace zeroshard::zero {

class OffloadedUpdate final : public UpdatePass {
 public:
  // Allocates all state, zeros, and makes the file. All references outlive it; `options` are valid. Errors: kResourceExhausted;
  // kInvalidArgument, naming the folder.
  static absl::StatusOr<std::unique_ptr<UpdatePass>> Create(device::Device& device, const Layout& layout,
                                                            const EngineOptions& options, int rank, device::Stream& compute);

  absl::Status AddSquares(const GradientStore& gradients, device::InOut sum) override;
  // Errors: kDataLoss, from the file; also of an earlier step.
  absl::Status Apply(const GradientStore& gradients, ParameterStore& parameters, device::In scalars) override;
  void SetFrozen(int parameter, bool frozen) override;
  std::span<const std::string_view> states() const override { return names_; }
  // These two wait.
  absl::Status ReadState(int state, int section, Range part, device::Out to) override;
  absl::Status WriteState(int state, int section, Range part, device::In from) override;

 private:
  // With this sub-group all sections before that one have come up.
  struct Written {
    int64_t group = 0;
    int before = 0;
    std::unique_ptr<device::Event> event;
  };
  // What a sub-group's update goes through, in host memory.
  struct Slot {
    device::Array gradients;
    device::Array parameters;
    std::unique_ptr<device::Event> down;  // they have come
    std::unique_ptr<device::Event> up;    // the new parameters have gone
  };

  OffloadedUpdate(device::Device& device, const Layout& layout, const EngineOptions& options, int rank,
                  device::Stream& compute);
  void CutParts(const std::vector<Part>& parts);
  absl::Status AllocateResident();
  absl::Status AllocateOffloaded();
  absl::Status MakeSlots();

  absl::Status ApplyResident(const GradientStore& gradients, ParameterStore& parameters, device::In scalars);
  // On the thread.
  void AddHostSquares();
  void Run();
  absl::Status RunGroups();
  absl::Status Bring(int64_t group);
  absl::Status Update(int64_t group);
  std::span<const Part> PartsOfGroup(int64_t group) const;
  void MakeWritten();

  Range InState(int section, Range part) const;
  device::Array Resident(int state, Range range) const;

  device::Device* device_;
  device::Device* host_;
  const Layout* layout_;
  const EngineOptions* options_;
  int rank_;
  device::Stream* compute_;
  const Precision precision_;
  const OffloadPlan plan_;
  std::vector<std::string_view> names_;
  std::vector<Part> parts_;  // all
  std::vector<Part> resident_parts_;
  std::vector<std::span<const Part>> sections_, resident_sections_;  // of these two
  std::vector<Part> offloaded_parts_;                                // cut at sub-groups
  std::vector<size_t> first_of_group_;                               // [groups + 1] into offloaded_parts_

  device::Buffer resident_masters_;
  std::unique_ptr<optim::Optimizer> resident_;
  std::unique_ptr<optim::Optimizer> offloaded_;
  std::unique_ptr<StateTier> tier_;
  device::Buffer staging_;  // host memory: of all slots, then one StepScalars, then the words of the norm
  device::Array host_scalars_;
  device::Array host_sum_;
  std::vector<Slot> slots_;
  std::unique_ptr<device::Event> begun_;  // gradients and scalars are there, parameters may be written
  std::unique_ptr<device::Event> done_;   // the squares have come up
  std::vector<Written> written_;          // in order of their groups, the last one's is the last
  size_t next_written_ = 0;               // of the update that is under way: the one that is recorded next
  std::unique_ptr<device::Stream> down_;
  std::unique_ptr<device::Stream> up_;
  std::unique_ptr<device::Stream> cores_;  // the host's
  // Of the update that is under way.
  const GradientStore* gradients_ = nullptr;
  ParameterStore* parameters_ = nullptr;
  device::Array scalars_;
  device::Array sum_;
  device::FirstError error_;
  std::unique_ptr<HostThread> thread_;
};

}  // namespace zeroshard::zero
