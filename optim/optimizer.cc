#include "zeroshard/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
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

bool IsMuons(const OptimizerOptions& options, const Run& run) {
  return options.kind == Kind::kMuon && options.groups[static_cast<size_t>(run.group)].orthogonal;
}

bool IsComputeDType(DType dtype) { return dtype == DType::kBfloat16 || dtype == DType::kFloat16; }

template <class Pass>
Pass PassOf(const OptimizerOptions& options, const GroupOptions& group) {
  Pass pass;
  pass.weight_decay = group.weight_decay;
  pass.learning_rate_scale = group.learning_rate_scale;
  if constexpr (std::is_same_v<Pass, device::SgdPass>) {
    pass.momentum = options.momentum;
    pass.nesterov = options.nesterov;
  } else {
    pass.eps = options.eps;
    pass.decoupled = options.kind != Kind::kAdam;
  }
  return pass;
}

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

std::vector<MatrixShape> MatricesOf(const OptimizerOptions& options, std::span<const Run> runs) {
  std::vector<MatrixShape> shapes;
  for (const Run& run : runs) {
    if (IsMuons(options, run)) shapes.push_back({run.rows, run.columns});
  }
  return shapes;
}

absl::Status Optimizer::MakeMuon() {
  for (const Run& run : runs_) {
    if (!IsMuons(options_, run) || run.rows * run.columns == run.count) continue;
    return absl::InvalidArgumentError(absl::StrCat("Muon needs whole matrices, but the optimizer's run of ", run.count,
                                                   " elements from ", run.first,
                                                   " is no whole matrix: take partition "
                                                   "tensor, or stage 0"));
  }
  const std::vector<MatrixShape> shapes = MatricesOf(options_, runs_);
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
  if (options_.kind == Kind::kSgd) return ApplyRuns<device::SgdPass>(stream, update);
  return ApplyRuns<device::AdamPass>(stream, update);
}

template <class Pass>
absl::Status Optimizer::ApplyRuns(device::Stream& stream, const Update& update) {
  device::Pieces<Pass> pieces;
  const int64_t begin = update.first;
  const int64_t end = begin + update.weights.elements();
  auto run = std::lower_bound(runs_.begin(), runs_.end(), begin,
                              [](const Run& r, int64_t first) { return r.first + r.count <= first; });
  for (; run != runs_.end() && run->first < end; ++run) {
    if (run->frozen) continue;
    const int64_t first = std::max(run->first, begin);
    const int64_t count = std::min(run->first + run->count, end) - first;
    const GroupOptions& group = options_.groups[static_cast<size_t>(run->group)];
    if (muon_ != nullptr && group.orthogonal) {
      ZS_RETURN_IF_ERROR(ApplyMuon(stream, update, *run, count));
      continue;
    }
    if (count == 0) continue;
    if (pieces.full()) {
      Queue(stream, update, pieces);
      pieces.Clear();
    }
    pieces.Add({.first = first - begin, .count = count, .of = PassOf<Pass>(options_, group)});
  }
  if (!pieces.empty()) Queue(stream, update, pieces);
  return absl::OkStatus();
}

void Optimizer::SetFrozen(int64_t first, int64_t count, bool frozen) {
  for (Run& run : runs_) {
    if (run.first < first + count && first < run.first + run.count) run.frozen = frozen;
  }
}

Array Optimizer::StateOf(const Update& update, size_t i) const {
  return owns_state_ ? state_[i].array.Slice(update.first, update.weights.elements()) : update.state[i];
}

void Optimizer::Queue(device::Stream& stream, const Update& update, const device::Pieces<device::SgdPass>& pieces) {
  device_->step().Sgd(stream, pieces, update.gradients, update.scalars, update.weights,
                      options_.momentum == 0 ? Array() : StateOf(update, 0), update.write_back);
}

void Optimizer::Queue(device::Stream& stream, const Update& update, const device::Pieces<device::AdamPass>& pieces) {
  device_->step().Adam(stream, pieces, update.gradients, update.scalars, update.weights, StateOf(update, 0),
                       StateOf(update, 1), update.write_back);
}

absl::Status Optimizer::ApplyMuon(device::Stream& stream, const Update& update, const Run& run, int64_t count) {
  if (count != run.count) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer update of ", count, " of the ", run.count,
                                                   " elements of a matrix; Muon takes it as a whole"));
  }
  if (count == 0) return absl::OkStatus();
  const auto part = [&](const Array& a) { return a.empty() ? a : a.Slice(run.first - update.first, run.count); };
  const GroupOptions& group = options_.groups[static_cast<size_t>(run.group)];
  const device::MuonPass pass{.momentum = options_.momentum,
                              .nesterov = options_.nesterov,
                              .weight_decay = group.weight_decay,
                              .learning_rate_scale = group.learning_rate_scale};
  muon_->Apply(stream, pass, {run.rows, run.columns},
               {.gradients = part(update.gradients),
                .scalars = update.scalars,
                .momentum = part(StateOf(update, 0)),
                .weights = part(update.weights),
                .write_back = part(update.write_back)});
  return absl::OkStatus();
}

}  // namespace zeroshard::optim
