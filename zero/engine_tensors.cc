// Engine's reading and writing of one full tensor by name.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/zero/engine_parts.h"
#include "zeroshard/zero/holding.h"
#include "zeroshard/zero/precision.h"

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

absl::StatusOr<int> Engine::Parts::FindMoment(std::string_view moment) const {
  const std::optional<int> state = step_end->update().Find(moment);
  if (state && moment != kMasterWeightsName) return *state;
  return absl::NotFoundError(
      absl::StrCat("the optimizer ", std::string(Name(options.optimizer.kind)), " keeps no ", std::string(moment)));
}

Range Engine::Parts::Held(int section) const {
  return HoldingOf(layout, options.stage, ranks->shard().rank(), section).range;
}

absl::Status Engine::Parts::StoreState(int state, int section, Range piece, Array from) {
  const Range held = Held(section);
  const Range kept = Intersect(piece, held);
  if (kept.count == 0) return absl::OkStatus();
  return step_end->update().WriteState(state, section, {kept.first - held.first, kept.count},
                                       from.Slice(kept.first - piece.first, kept.count));
}

absl::Status Engine::Parts::CheckHasGradient(int parameter) const {
  if (!frozen[parameter]) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(layout.parameters()[parameter].spec.name,
                                                    " is frozen for now, and has no gradient; SetFrozen unfreezes it"));
}

double Engine::Parts::StoredGradientScale() {
  return GradientScale(options, layout.ranks()) / step_end->StoredLossScale(/*ended=*/!gradients->finished());
}

absl::Status Engine::ReadParameter(std::string_view name, std::span<float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindTensor(name, values.size(), /*trainable=*/false));
  const std::optional<int> masters = p.step_end->update().Find(kMasterWeightsName);
  const bool has_master = masters && p.layout.parameters()[parameter].spec.trainable;
  const auto source = [&](int section, Range part, Array to) {
    if (has_master) return p.step_end->update().ReadState(*masters, section, part, to);
    return p.parameters->ReadHeld(section, part, to);
  };
  return p.tensors->Read(parameter, source, /*scale=*/1, values);
}

absl::Status Engine::WriteParameter(std::string_view name, std::span<const float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindWritten(name, values.size(), /*trainable=*/false));
  ZS_RETURN_IF_ERROR(p.CheckResharded("WriteParameter"));
  const int section = p.layout.parameters()[parameter].section;
  if (section < 0) return absl::OkStatus();
  const bool trainable = p.layout.sections()[section].trainable;
  const std::optional<int> masters = p.step_end->update().Find(kMasterWeightsName);
  const auto sink = [&](Range piece, Array from) -> absl::Status {
    ZS_RETURN_IF_ERROR(p.parameters->WriteResident(section, piece, from));
    return masters && trainable ? p.StoreState(*masters, section, piece, from) : absl::OkStatus();
  };
  p.parameters->BeginUpdate();
  const absl::Status written = p.tensors->Write(parameter, sink, /*scale=*/1, values);
  p.parameters->EndUpdate(/*gather=*/false);
  return written;
}

absl::Status Engine::ReadGradient(std::string_view name, std::span<float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindTensor(name, values.size(), /*trainable=*/true));
  ZS_RETURN_IF_ERROR(p.CheckHasGradient(parameter));
  if (p.gradients->Started()) ZS_RETURN_IF_ERROR(p.gradients->Finish());
  const auto source = [&](int section, Range part, Array to) {
    p.gradients->ReadHeld(section, part, to);
    return absl::OkStatus();
  };
  return p.tensors->Read(parameter, source, p.StoredGradientScale(), values);
}

absl::Status Engine::WriteGradient(std::string_view name, std::span<const float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindWritten(name, values.size(), /*trainable=*/true));
  ZS_RETURN_IF_ERROR(p.CheckHasGradient(parameter));
  ZS_RETURN_IF_ERROR(p.gradients->Finish());
  const int section = p.layout.parameters()[parameter].section;
  if (section < 0) return absl::OkStatus();
  const Range held = p.Held(section);
  const auto sink = [&](Range piece, Array from) {
    const Range kept = Intersect(piece, held);
    if (kept.count > 0) {
      p.gradients->WriteHeld(section, {kept.first - held.first, kept.count},
                             from.Slice(kept.first - piece.first, kept.count));
    }
    return absl::OkStatus();
  };
  return p.tensors->Write(parameter, sink, 1 / p.StoredGradientScale(), values);
}

absl::Status Engine::ReadMoment(std::string_view moment, std::string_view name, std::span<float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindTensor(name, values.size(), /*trainable=*/true));
  ZS_ASSIGN_OR_RETURN(const int state, p.FindMoment(moment));
  const auto source = [&](int section, Range part, Array to) {
    return p.step_end->update().ReadState(state, section, part, to);
  };
  return p.tensors->Read(parameter, source, /*scale=*/1, values);
}

absl::Status Engine::WriteMoment(std::string_view moment, std::string_view name, std::span<const float> values) {
  Parts& p = *parts_;
  ZS_ASSIGN_OR_RETURN(const int parameter, p.FindWritten(name, values.size(), /*trainable=*/true));
  ZS_ASSIGN_OR_RETURN(const int state, p.FindMoment(moment));
  const int section = p.layout.parameters()[parameter].section;
  if (section < 0) return absl::OkStatus();
  const auto sink = [&](Range piece, Array from) { return p.StoreState(state, section, piece, from); };
  return p.tensors->Write(parameter, sink, /*scale=*/1, values);
}

}  // namespace zeroshard::zero
