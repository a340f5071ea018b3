#include "zeroshard/model/single_rank.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/initialize.h"

namespace zeroshard::model {
namespace {

using device::Array;
using device::DType;

// Each parameter starts on a multiple of this, as in ZeRO's flat buffers.
constexpr int64_t kAlignedElements = 64;

int64_t Aligned(int64_t elements) { return (elements + kAlignedElements - 1) / kAlignedElements * kAlignedElements; }

}  // namespace

absl::StatusOr<std::unique_ptr<SingleRank>> SingleRank::Create(device::Device& device, const GptOptions& options) {
  std::unique_ptr<SingleRank> rank(new SingleRank);
  rank->stream_ = device.MakeStream(device::StreamKind::kCompute);
  ZS_ASSIGN_OR_RETURN(rank->gpt_, Gpt::Create(device, options));
  ZS_RETURN_IF_ERROR(rank->Allocate(device));
  return rank;
}

SingleRank::Memory SingleRank::Bytes(const GptOptions& options) {
  const absl::StatusOr<std::vector<UnitSpec>> units = GptUnits(options);
  CHECK(units.ok()) << units.status();
  int64_t elements = 0;
  for (const UnitSpec& unit : *units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.tied_to.empty()) elements += Aligned(Elements(parameter));
    }
  }
  return {.parameters = elements * device::SizeOf(options.dtype),
          .gradients = elements * device::SizeOf(options.gradient_dtype)};
}

absl::Status SingleRank::Allocate(device::Device& device) {
  const DType dtype = gpt_->options().dtype, gradient_dtype = gpt_->options().gradient_dtype;
  const Memory bytes = Bytes(gpt_->options());
  ZS_ASSIGN_OR_RETURN(parameter_memory_, device.Allocate(bytes.parameters, device::Use::kParameters, "parameters"));
  ZS_ASSIGN_OR_RETURN(gradient_memory_, device.Allocate(bytes.gradients, device::Use::kGradients, "gradients"));
  int64_t first = 0;
  for (const UnitSpec& unit : gpt_->units()) {
    auto& parameters = parameters_.emplace_back();
    auto &targets = targets_.emplace_back(), &added = added_.emplace_back();
    for (const ParameterSpec& parameter : unit.parameters) {
      const bool tied = !parameter.tied_to.empty();
      if (!tied) {
        storage_[parameter.name] = {parameter_memory_.array(dtype).Slice(first, Elements(parameter)),
                                    gradient_memory_.array(gradient_dtype).Slice(first, Elements(parameter))};
        stored_.push_back(parameter);
        first += Aligned(Elements(parameter));
      }
      const Storage& storage = storage_.at(tied ? parameter.tied_to : parameter.name);
      parameters.push_back(storage.parameter);
      targets.push_back({.array = parameter.trainable ? storage.gradient : Array()});
      added.push_back({.array = targets.back().array, .accumulate = true});
    }
  }
  // The head's gradient of a tied matrix is there first: the embedding adds.
  if (gpt_->options().tied) targets_[0][0].accumulate = true;
  return absl::OkStatus();
}

void SingleRank::InitializeParameters(uint64_t seed) {
  constexpr int64_t kMost = 1 << 20;  // elements held on the host at a time
  std::vector<float> values;
  for (const ParameterSpec& parameter : stored_) {
    for (int64_t first = 0; first < Elements(parameter); first += kMost) {
      values.resize(std::min(kMost, Elements(parameter) - first));
      Initialize(parameter, gpt_->options().layers, seed, first, values);
      WriteArray(values, storage_.at(parameter.name).parameter.Slice(first, static_cast<int64_t>(values.size())));
    }
  }
}

void SingleRank::Write(const std::string& name, std::span<const float> values) {
  WriteArray(values, storage_.at(name).parameter);
}

device::Buffer SingleRank::Floats(int64_t elements) {
  absl::StatusOr<device::Buffer> buffer =
      stream_->device().Allocate(elements * device::SizeOf(DType::kFloat32), device::Use::kData, "values on their way");
  CHECK(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

void SingleRank::WriteArray(std::span<const float> values, const Array& to) {
  const device::Buffer floats = Floats(to.elements());
  stream_->device().CopyFromHost(*stream_, values.data(), floats.array(DType::kFloat32));
  stream_->device().elementwise().Convert(*stream_, floats.array(DType::kFloat32), to);
  stream_->Synchronize();
}

std::vector<float> SingleRank::Read(const Array& array) {
  std::vector<float> values(array.elements());
  const device::Buffer floats = Floats(array.elements());
  stream_->device().elementwise().Convert(*stream_, array, floats.array(DType::kFloat32));
  stream_->device().CopyToHost(*stream_, floats.array(DType::kFloat32), values.data());
  stream_->Synchronize();
  return values;
}
std::vector<float> SingleRank::ReadParameter(const std::string& name) { return Read(storage_.at(name).parameter); }
std::vector<float> SingleRank::ReadGradient(const std::string& name) { return Read(storage_.at(name).gradient); }

absl::Status SingleRank::Forward(const MicroBatch& micro_batch) {
  ZS_RETURN_IF_ERROR(gpt_->BeginMicroBatch(*stream_, micro_batch));
  const int units = static_cast<int>(parameters_.size());
  for (int unit = 0; unit < units; ++unit) ZS_RETURN_IF_ERROR(gpt_->Forward(*stream_, unit, parameters_[unit]));
  return absl::OkStatus();
}

absl::Status SingleRank::Run(const MicroBatch& micro_batch, device::WriteMode mode) {
  ZS_RETURN_IF_ERROR(Forward(micro_batch));
  if (micro_batch.purpose != Purpose::kTrain) return absl::OkStatus();
  const auto& targets = mode == device::WriteMode::kAccumulate ? added_ : targets_;
  for (const auto& [unit, pass] : gpt_->passes()) {
    if (pass == Pass::kRecompute) ZS_RETURN_IF_ERROR(gpt_->Recompute(*stream_, unit, parameters_[unit]));
    if (pass == Pass::kBackward) ZS_RETURN_IF_ERROR(gpt_->Backward(*stream_, unit, parameters_[unit], targets[unit]));
  }
  return absl::OkStatus();
}

double SingleRank::LossSum() {
  double loss = 0;
  stream_->device().CopyToHost(*stream_, gpt_->loss_sum(), &loss);
  stream_->Synchronize();
  return loss;
}

}  // namespace zeroshard::model
