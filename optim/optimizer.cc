#include "zeroshard/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::optim {

using device::Array;
using device::DType;

namespace {

absl::Status CheckRuns(int64_t elements, size_t groups, const std::vector<Run>& runs) {
  int64_t end = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    const std::string where =
        absl::StrCat("optimizer run ", i, " {first ", run.first, ", count ", run.count, ", group ", run.group, "}");
    if (run.first < end || run.count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " begins before ", end, ", where the run before it ends; runs are disjoint and ascending"));
    }
    if (run.count > elements - run.first) {
      return absl::InvalidArgumentError(absl::StrCat(where, " ends beyond the shard's ", elements, " elements"));
    }
    if (run.group < 0 || static_cast<size_t>(run.group) >= groups) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the optimizer has groups 0 to ", static_cast<int64_t>(groups) - 1));
    }
    end = run.first + run.count;
  }
  return absl::OkStatus();
}

absl::Status CheckArray(std::string_view name, const Array& array, int64_t elements, bool dtype_fits) {
  if (array.elements() == elements && dtype_fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("optimizer update: ", std::string(name), " is ", array.elements(),
                                                 " elements of ", std::string(device::Name(array.dtype())),
                                                 ", which does not fit ", elements, " weights in fp32"));
}

constexpr std::array<std::string_view, 2> kAdamState = {"exp_avg", "exp_avg_sq"};
constexpr std::array<std::string_view, 1> kMomentumState = {"momentum_buffer"};

bool IsComputeDType(DType dtype) { return dtype == DType::kBfloat16 || dtype == DType::kFloat16; }

}  // namespace

std::span<const std::string_view> StateNames(const OptimizerOptions& options) {
  if (options.kind != Kind::kSgd) return kAdamState;
  if (options.momentum != 0) return kMomentumState;
  return {};
}

Optimizer::Optimizer(device::Device& device, const OptimizerOptions& options, int64_t elements, std::vector<Run> runs)
    : device_(&device), options_(options), elements_(elements), runs_(std::move(runs)) {}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Make(device::Device& device, const OptimizerOptions& options,
                                                           int64_t elements, std::vector<Run> runs) {
  ZS_RETURN_IF_ERROR(Validate(options));
  if (elements < 0) {
    return absl::InvalidArgumentError(absl::StrCat("an optimizer's shard has ", elements, " elements; at least 0"));
  }
  ZS_RETURN_IF_ERROR(CheckRuns(elements, options.groups.size(), runs));
  return absl::WrapUnique(new Optimizer(device, options, elements, std::move(runs)));
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::CreateWithoutState(device::Device& device,
                                                                         const OptimizerOptions& options, int64_t elements,
                                                                         std::vector<Run> runs) {
  ZS_ASSIGN_OR_RETURN(auto optimizer, Make(device, options, elements, std::move(runs)));
  ZS_RETURN_IF_ERROR(optimizer->MakeMuon());
  return optimizer;
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(device::Device& device, const OptimizerOptions& options,
                                                             int64_t elements, std::vector<Run> runs) {
  ZS_ASSIGN_OR_RETURN(auto optimizer, Make(device, options, elements, std::move(runs)));
  ZS_RETURN_IF_ERROR(optimizer->AllocateState());
  ZS_RETURN_IF_ERROR(optimizer->MakeMuon());
  return optimizer;
}

absl::Status Optimizer::MakeMuon() {
  std::vector<MatrixShape> shapes;
  for (const Run& run : runs_) {
    if (options_.kind != Kind::kMuon || !options_.groups[static_cast<size_t>(run.group)].orthogonal) continue;
    if (run.rows * run.columns != run.count) {
      return absl::InvalidArgumentError(absl::StrCat("Muon needs whole matrices, but the optimizer's run of ", run.count,
                                                     " elements from ", run.first,
                                                     " is no whole matrix: take partition "
                                                     "tensor, or stage 0"));
    }
    shapes.push_back({run.rows, run.columns});
  }
  if (shapes.empty()) return absl::OkStatus();
  ZS_ASSIGN_OR_RETURN(muon_, Muon::Create(*device_, shapes));
  return absl::OkStatus();
}

absl::Status Optimizer::AllocateState() {
  owns_state_ = true;
  for (std::string_view name : StateNames(options_)) {
    const int64_t bytes = elements_ * device::SizeOf(DType::kFloat32);
    ZS_ASSIGN_OR_RETURN(device::Buffer buffer, device_->Allocate(bytes, device::Use::kMoments, name));
    state_.push_back({name, buffer.array(DType::kFloat32)});
    buffers_.push_back(std::move(buffer));
  }
  return absl::OkStatus();
}

// State that was handed over where there is an own one is as wrong as none where there is no own one.
absl::Status Optimizer::CheckState(const Update& update) const {
  const std::span<const std::string_view> names = StateNames(options_);
  for (size_t i = 0; i < update.state.size(); ++i) {
    const Array& state = update.state[i];
    const int64_t count = owns_state_ || i >= names.size() ? 0 : update.weights.elements();
    const std::string_view name = i < names.size() ? names[i] : "a state that this optimizer has not";
    ZS_RETURN_IF_ERROR(CheckArray(name, state, count, state.dtype() == DType::kFloat32));
  }
  return absl::OkStatus();
}

absl::Status Optimizer::Check(const Update& update) const {
  const int64_t count = update.weights.elements();
  const DType gradient = update.gradients.dtype();
  ZS_RETURN_IF_ERROR(CheckArray("weights", update.weights, count, update.weights.dtype() == DType::kFloat32));
  ZS_RETURN_IF_ERROR(
      CheckArray("gradients", update.gradients, count, gradient == DType::kFloat32 || IsComputeDType(gradient)));
  if (!update.write_back.empty()) {
    ZS_RETURN_IF_ERROR(CheckArray("write_back", update.write_back, count, IsComputeDType(update.write_back.dtype())));
  }
  if (update.first < 0 || count > elements_ - update.first) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer update of elements ", update.first, " to ",
                                                   update.first + count, " of a shard of ", elements_));
  }
  ZS_RETURN_IF_ERROR(CheckState(update));
  if (update.scalars.bytes() != static_cast<int64_t>(sizeof(device::StepScalars))) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer update: scalars is ", update.scalars.bytes(),
                                                   " bytes; a StepScalars is ", sizeof(device::StepScalars)));
  }
  return absl::OkStatus();
}

absl::Status Optimizer::Apply(device::Stream& stream, const Update& update) {
  ZS_RETURN_IF_ERROR(Check(update));
  const int64_t begin = update.first;
  const int64_t end = begin + update.weights.elements();
  auto run = std::lower_bound(runs_.begin(), runs_.end(), begin,
                              [](const Run& r, int64_t first) { return r.first + r.count <= first; });
  for (; run != runs_.end() && run->first < end; ++run) {
    if (run->frozen) continue;
    const int64_t first = std::max(run->first, begin);
    const int64_t count = std::min(run->first + run->count, end) - first;
    const bool whole = count == run->count;
    if (!whole && muon_ != nullptr && options_.groups[static_cast<size_t>(run->group)].orthogonal) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer update of ", count, " of the ", run->count,
                                                     " elements of a matrix; Muon takes it as a whole"));
    }
    if (count == 0) continue;
    Run part = *run;
    part.first = first;
    part.count = count;
    ApplyRun(stream, update, part);
  }
  return absl::OkStatus();
}

void Optimizer::SetFrozen(int64_t first, int64_t count, bool frozen) {
  for (Run& run : runs_) {
    if (run.first < first + count && first < run.first + run.count) run.frozen = frozen;
  }
}

void Optimizer::ApplyRun(device::Stream& stream, const Update& update, const Run& run) {
  const auto part = [&](const Array& a) { return a.empty() ? a : a.Slice(run.first - update.first, run.count); };
  const auto state = [&](size_t i) {
    return owns_state_ ? state_[i].array.Slice(run.first, run.count) : part(update.state[i]);
  };
  const GroupOptions& group = options_.groups[static_cast<size_t>(run.group)];
  if (options_.kind == Kind::kSgd) {
    const device::SgdPass pass{.momentum = options_.momentum,
                               .nesterov = options_.nesterov,
                               .weight_decay = group.weight_decay,
                               .learning_rate_scale = group.learning_rate_scale};
    device_->step().Sgd(stream, pass, part(update.gradients), update.scalars, part(update.weights),
                        options_.momentum == 0 ? Array() : state(0), part(update.write_back));
    return;
  }
  if (muon_ != nullptr && group.orthogonal) {
    const device::MuonPass muon{.momentum = options_.momentum,
                                .nesterov = options_.nesterov,
                                .weight_decay = group.weight_decay,
                                .learning_rate_scale = group.learning_rate_scale};
    muon_->Apply(stream, muon, {run.rows, run.columns},
                 {.gradients = part(update.gradients),
                  .scalars = update.scalars,
                  .momentum = state(0),
                  .weights = part(update.weights),
                  .write_back = part(update.write_back)});
    return;
  }
  const device::AdamPass pass{.eps = options_.eps,
                              .weight_decay = group.weight_decay,
                              .learning_rate_scale = group.learning_rate_scale,
                              .decoupled = options_.kind != Kind::kAdam};
  device_->step().Adam(stream, pass, part(update.gradients), update.scalars, part(update.weights), state(0), state(1),
                       part(update.write_back));
}

}  // namespace zeroshard::optim
