#include "zeroshard/trainer/sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/gpt.h"

namespace zeroshard::trainer {
namespace {

// One row through all units, by every rank; the logits of the token after `position`.
absl::Status ForwardRow(TrainingRun& run, model::Gpt& gpt, std::span<const int32_t> row, int64_t position,
                        device::Out logits) {
  zero::Engine& engine = run.engine();
  device::Stream& stream = engine.compute();
  ZS_RETURN_IF_ERROR(
      gpt.BeginMicroBatch(stream, {.inputs = row, .targets = {}, .rows = 1, .purpose = model::Purpose::kSample}));
  const int units = static_cast<int>(run.units().size());
  for (int u = 0; u < units; ++u) {
    ZS_RETURN_IF_ERROR(engine.Unshard(u, zero::Pass::kForward));
    ZS_ASSIGN_OR_RETURN(const auto parameters, engine.parameters(u));
    ZS_RETURN_IF_ERROR(gpt.Forward(stream, u, parameters));
    if (u == units - 1) ZS_RETURN_IF_ERROR(gpt.Logits(stream, parameters, 0, position, logits));
    ZS_RETURN_IF_ERROR(engine.Reshard(u));
  }
  return engine.Abandon();
}

class Picker {
 public:
  explicit Picker(const SampleOptions& options) : options_(options), random_(options.seed) {}

  int32_t Pick(std::span<const float> logits) {
    if (options_.known_vocab > 0) logits = logits.first(std::min(logits.size(), static_cast<size_t>(options_.known_vocab)));
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto top = std::min(order_.size(), static_cast<size_t>(options_.top));
    std::partial_sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(top), order_.end(),
                      [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
    weights_.clear();
    const double most = logits[static_cast<size_t>(order_[0])];
    for (size_t i = 0; i < top; ++i) {
      weights_.push_back(std::exp((logits[static_cast<size_t>(order_[i])] - most) / options_.temperature));
    }
    double at = std::accumulate(weights_.begin(), weights_.end(), 0.0) * static_cast<double>(random_() >> 11) * 0x1p-53;
    size_t chosen = 0;
    while (chosen + 1 < top && at >= weights_[chosen]) at -= weights_[chosen++];
    return order_[chosen];
  }

 private:
  SampleOptions options_;
  std::mt19937_64 random_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> SampleTokens(TrainingRun& run, const SampleOptions& options,
                                                  std::vector<int32_t> prompt) {
  device::Device& device = run.communicator().device();
  model::GptOptions one_row = run.options().model;
  one_row.batch = 1;
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<model::Gpt> gpt, model::Gpt::Create(device, one_row));
  ZS_ASSIGN_OR_RETURN(const device::Buffer logits, device.Allocate(4 * one_row.vocab, device::Use::kActivations, "logits"));
  const device::Array logits_array = logits.array(device::DType::kFloat32);
  std::vector<float> host_logits(static_cast<size_t>(one_row.vocab));
  const auto context = static_cast<size_t>(one_row.context);
  std::vector<int32_t> row(context, 0);
  std::vector<int32_t> sampled;
  std::vector<int32_t> window = std::move(prompt);
  Picker picker(options);
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (options.enough && options.enough()) break;
    // Positions are learned: a full window goes on from its second half.
    if (window.size() > context) window.erase(window.begin(), window.end() - static_cast<ptrdiff_t>((context + 1) / 2));
    std::copy(window.begin(), window.end(), row.begin());
    ZS_RETURN_IF_ERROR(ForwardRow(run, *gpt, row, static_cast<int64_t>(window.size()) - 1, logits_array));
    device.CopyToHost(run.engine().compute(), logits_array, host_logits.data());
    run.engine().compute().Synchronize();
    ZS_RETURN_IF_ERROR(device.status());
    window.push_back(picker.Pick(host_logits));
    sampled.push_back(window.back());
  }
  return sampled;
}

}  // namespace zeroshard::trainer
