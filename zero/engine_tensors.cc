// Engine's reading and writing of one full tensor by name.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/engine_parts.h"
#include "zeroshard/zero/holding.h"

namespace zeroshard::zero {

using device::Array;

absl::StatusOr<int> Engine::Parts::FindTensor(std::string_view name, size_t elements, bool trainable) const {
  ZS_RETURN_IF_ERROR(communicator->status());
  const std::optional<int> found = layout.Find(name);
  if (!found) return absl::NotFoundError(absl::StrCat("no parameter is called ", std::string(name)));
  const Parameter& parameter = layout.parameters()[*found];
  if (trainable && !parameter.spec.trainable) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(name), " is frozen: it has no gradient and no moments"));
  }
  if (static_cast<int64_t>(elements) == parameter.elements) return *found;
  return absl::InvalidArgumentError(absl::StrCat(std::string(name), " [", absl::StrJoin(parameter.spec.shape, ", "),
                                                 "] has ", parameter.elements, " elements; ", elements, " were given"));
}

absl::StatusOr<int> Engine::Parts::FindWritten(std::string_view name, size_t elements, bool trainable) const {
  const std::optional<int> found = layout.Find(name);
  const bool ignored = elements == 0 && communicator->rank() != 0 && found;
  return FindTensor(name, ignored ? static_cast<size_t>(layout.parameters()[*found].elements) : elements, trainable);
}

absl::StatusOr<Array> Engine::Parts::FindMoment(std::string_view moment) const {
  for (const optim::StateTensor& state : step_end->optimizer().state()) {
    if (state.name == moment) return state.array;
  }
  return absl::NotFoundError(
      absl::StrCat("the optimizer ", std::string(Name(options.optimizer.kind)), " keeps no ", std::string(moment)));
}

TensorAccess::Home Engine::Parts::HeldHome(int parameter, Array held) const {
  const int section = layout.parameters()[parameter].section;
  return {.range = HoldingOf(layout, options.stage, communicator->rank(), section).range, .memory = held};
}

absl::Status Engine::ReadParameter(std::string_view name, std::span<float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindTensor(name, values.size(), /*trainable=*/false));
  return p.tensors->Read(
      parameter, [&](int section) { return p.parameters->Held(section); }, /*scale=*/1, values);
}

absl::Status Engine::WriteParameter(std::string_view name, std::span<const float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindWritten(name, values.size(), /*trainable=*/false));
  ZS_RETURN_IF_ERROR(p.CheckResharded("WriteParameter"));
  const int section = p.layout.parameters()[parameter].section;
  if (section < 0) return absl::OkStatus();
  const Section& s = p.layout.sections()[section];
  const Range resident = ShardsParameters(p.options.stage) ? s.Owned(p.communicator->rank()) : Range{0, s.elements};
  p.parameters->BeginUpdate();
  const absl::Status written =
      p.tensors->Write(parameter, {.range = resident, .memory = p.parameters->Resident(section)}, /*scale=*/1, values);
  p.parameters->EndUpdate(/*gather=*/false);
  return written;
}

absl::Status Engine::ReadGradient(std::string_view name, std::span<float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindTensor(name, values.size(), /*trainable=*/true));
  if (p.gradients->Started()) ZS_RETURN_IF_ERROR(p.gradients->Finish());
  const double scale = GradientScale(p.options, p.layout.world_size());
  return p.tensors->Read(
      parameter, [&](int section) { return p.gradients->Held(section); }, scale, values);
}

absl::Status Engine::WriteGradient(std::string_view name, std::span<const float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindWritten(name, values.size(), /*trainable=*/true));
  ZS_RETURN_IF_ERROR(p.gradients->Finish());
  const int section = p.layout.parameters()[parameter].section;
  if (section < 0) return absl::OkStatus();
  const double scale = 1 / GradientScale(p.options, p.layout.world_size());
  return p.tensors->Write(parameter, p.HeldHome(parameter, p.gradients->Held(section)), scale, values);
}

absl::Status Engine::ReadMoment(std::string_view moment, std::string_view name, std::span<float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindTensor(name, values.size(), /*trainable=*/true));
  ZS_ASSIGN_OR_RETURN(const Array state, p.FindMoment(moment));
  return p.tensors->Read(
      parameter, [&](int section) { return p.step_end->StateOf(state, section); }, /*scale=*/1, values);
}

absl::Status Engine::WriteMoment(std::string_view moment, std::string_view name, std::span<const float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindWritten(name, values.size(), /*trainable=*/true));
  ZS_ASSIGN_OR_RETURN(const Array state, p.FindMoment(moment));
  const int section = p.layout.parameters()[parameter].section;
  if (section < 0) return absl::OkStatus();
  return p.tensors->Write(parameter, p.HeldHome(parameter, p.step_end->StateOf(state, section)), /*scale=*/1, values);
}

}  // namespace zeroshard::zero
