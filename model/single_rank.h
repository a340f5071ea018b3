// A Gpt with all of its parameters and gradients on one device: a whole micro-batch in one call, for tests and benchmarks.
//
// A tied matrix has one storage and one gradient, as under ZeRO.
//
// Example:
//   ZS_ASSIGN_OR_RETURN(auto rank, SingleRank::Create(device, options));
//   rank->InitializeParameters(/*seed=*/1);
//   ZS_RETURN_IF_ERROR(rank->Run({.inputs = x, .targets = y, .rows = 4}, device::WriteMode::kOverwrite));
//   rank->LossSum();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zeroshard/device/device.h"
#include "zeroshard/model/gpt.h"

namespace zeroshard::model {

class SingleRank {
 public:
  // Bytes that Create takes beside the Gpt's. Options that GptUnits takes.
  struct Memory {
    int64_t parameters = 0;
    int64_t gradients = 0;
  };
  static Memory Bytes(const GptOptions& options);
  static absl::StatusOr<std::unique_ptr<SingleRank>> Create(device::Device& device, const GptOptions& options);
  // What is queued runs to its end.
  ~SingleRank() { stream_->Synchronize(); }
  SingleRank(const SingleRank&) = delete;
  SingleRank& operator=(const SingleRank&) = delete;

  Gpt& gpt() { return *gpt_; }
  device::Stream& stream() { return *stream_; }
  std::span<const device::Array> parameters(int unit) const { return parameters_[unit]; }
  // Overwriting all but the embedding's part of a tied matrix.
  std::span<const GradientTarget> targets(int unit) const { return targets_[unit]; }

  void InitializeParameters(uint64_t seed);
  // By name, [shape], rounded to what is stored; a tied parameter goes by the name of what it is tied to.
  void Write(const std::string& name, std::span<const float> values);
  std::vector<float> ReadParameter(const std::string& name);
  std::vector<float> ReadGradient(const std::string& name);
  const device::Array& Gradient(const std::string& name) const { return storage_.at(name).gradient; }
  // Names of the stored parameters, in the units' order.
  const std::vector<ParameterSpec>& stored() const { return stored_; }

  absl::Status Forward(const MicroBatch& micro_batch);
  // Forward, and for training backward. `mode`: whether gradients of earlier micro-batches are added to.
  absl::Status Run(const MicroBatch& micro_batch, device::WriteMode mode);
  double LossSum();

 private:
  SingleRank() = default;
  struct Storage {
    device::Array parameter;
    device::Array gradient;
  };
  absl::Status Allocate(device::Device& device);
  // fp32 memory through which values go that are stored in another type.
  device::Buffer Floats(int64_t elements);
  void WriteArray(std::span<const float> values, const device::Array& to);
  std::vector<float> Read(const device::Array& array);

  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<Gpt> gpt_;
  std::vector<ParameterSpec> stored_;
  std::map<std::string, Storage> storage_;
  device::Buffer parameter_memory_, gradient_memory_;
  std::vector<std::vector<device::Array>> parameters_;        // of each unit
  std::vector<std::vector<GradientTarget>> targets_, added_;  // the same, adding to what is there
};

}  // namespace zeroshard::model
