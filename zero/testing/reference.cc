#include "zeroshard/zero/testing/reference.h"

#include <cstring>
#include <numeric>

#include "zeroshard/device/convert.h"
#include "zeroshard/device/cpu/cpu_device.h"
#include "zeroshard/device/exact_sum.h"
#include "zeroshard/device/pieces.h"
#include "zeroshard/optim/optimizer.h"
#include "zeroshard/zero/precision.h"
#include "zeroshard/zero/testing/toy_model.h"

namespace zeroshard::zero::testing {
namespace {

using device::Array;
using device::DType;

// Neighbours first; an odd one out passes up unchanged.
std::vector<float> TreeSum(std::vector<std::vector<float>> parts) {
  while (parts.size() > 1) {
    std::vector<std::vector<float>> next;
    for (size_t i = 0; i < parts.size(); i += 2) {
      next.push_back(std::move(parts[i]));
      if (i + 1 == parts.size()) continue;
      for (size_t e = 0; e < next.back().size(); ++e) next.back()[e] += parts[i + 1][e];
    }
    parts = std::move(next);
  }
  return std::move(parts.front());
}

// The value of x in a dtype, nearest even.
float Rounded(DType dtype, float x) {
  if (dtype == DType::kBfloat16) return ToFloat(device::ToBfloat16(x));
  if (dtype == DType::kFloat16) return ToFloat(device::ToFloat16(x));
  return x;
}

std::vector<float> Rounded(DType dtype, std::vector<float> values) {
  for (float& value : values) value = Rounded(dtype, value);
  return values;
}

void AddTo(DType dtype, std::vector<float>& sum, const std::vector<float>& x) {
  if (sum.empty()) {
    sum = Rounded(dtype, x);
    return;
  }
  for (size_t e = 0; e < sum.size(); ++e) sum[e] = Rounded(dtype, sum[e] + x[e]);
}

// What is stored of the sum over ranks.
std::vector<float> Stored(const Precision& precision, std::vector<std::vector<float>> parts) {
  const auto prescale = static_cast<float>(1 / precision.prescale);
  for (std::vector<float>& part : parts) {
    for (float& x : part) {
      if (precision.prescale != 1) x = Rounded(precision.backward, x * prescale);
      x = Rounded(precision.wire, x);
    }
  }
  const auto divisor = static_cast<float>(precision.averages ? precision.divisor : 1);
  std::vector<float> sum = TreeSum(std::move(parts));
  for (float& x : sum) x = Rounded(precision.wire, x / divisor);
  return sum;
}

}  // namespace

Schedule EveryUnit(const std::vector<model::UnitSpec>& units, int accumulation) {
  std::vector<int> all(units.size());
  std::iota(all.begin(), all.end(), 0);
  return Schedule(accumulation, all);
}

Reference::Reference(std::vector<model::UnitSpec> units, const EngineOptions& options, int world_size)
    : units_(std::move(units)), options_(options), world_size_(world_size) {
  for (const model::UnitSpec& unit : units_) {
    for (const model::ParameterSpec& spec : unit.parameters) {
      if (!spec.tied_to.empty()) {
        by_name_[spec.name] = by_name_.at(spec.tied_to);
        continue;
      }
      by_name_[spec.name] = static_cast<int>(tensors_.size());
      Tensor tensor{.spec = spec, .weights = std::vector<float>(model::Elements(spec)), .gradient = {}, .moments = {}};
      for (size_t e = 0; e < tensor.weights.size(); ++e) tensor.weights[e] = Initial(spec, static_cast<int64_t>(e));
      if (!spec.trainable) tensor.weights = Rounded(options.dtype, tensor.weights);
      tensor.gradient.resize(tensor.weights.size());
      for (std::vector<float>& moment : tensor.moments) moment.resize(tensor.weights.size());
      tensors_.push_back(std::move(tensor));
    }
  }
}

Reference::~Reference() = default;

void Reference::SetFrozen(const std::string& name, bool frozen) { tensors_[by_name_.at(name)].spec.frozen = frozen; }

const std::vector<float>& Reference::weights(const std::string& name) const { return tensors_[by_name_.at(name)].weights; }
const std::vector<float>& Reference::gradient(const std::string& name) const { return tensors_[by_name_.at(name)].gradient; }
const std::vector<float>& Reference::moment(int i, const std::string& name) const {
  return tensors_[by_name_.at(name)].moments[i];
}

device::StepScalars Reference::Step(const Schedule& schedule) {
  losses_.assign(world_size_, 0);
  std::vector<std::vector<std::vector<Use>>> uses(tensors_.size(), std::vector<std::vector<Use>>(schedule.size()));
  for (size_t m = 0; m < schedule.size(); ++m) {
    for (int u : schedule[m]) {
      for (size_t p = 0; p < units_[u].parameters.size(); ++p) {
        const Tensor& tensor = tensors_[by_name_.at(units_[u].parameters[p].name)];
        for (int r = 0; r < world_size_; ++r) {
          losses_[r] += LossOf(tensor, {u, static_cast<int>(p)}, r, static_cast<int>(m));
        }
      }
    }
    for (auto u = schedule[m].rbegin(); u != schedule[m].rend(); ++u) {
      for (size_t p = 0; p < units_[*u].parameters.size(); ++p) {
        uses[by_name_.at(units_[*u].parameters[p].name)][m].push_back({*u, static_cast<int>(p)});
      }
    }
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].spec.trainable) Reduce(tensors_[t], uses[t]);
  }
  ++step_;
  return Update();
}

float Reference::LossScale() const {
  const float scale = scalars_.scaling.scale;
  return scale == 0 ? device::InitialLossScale(options_.optimizer.loss_scale) : scale;
}

double Reference::LossOf(const Tensor& tensor, const Use& use, int rank, int micro_batch) const {
  double loss = 0;
  for (size_t e = 0; e < tensor.weights.size(); ++e) {
    loss += UseLoss({rank, step_, micro_batch}, use.unit, use.parameter, units_[use.unit].backward_reads_parameters,
                    static_cast<int64_t>(e), Rounded(options_.dtype, tensor.weights[e]));
  }
  return loss;
}

std::vector<float> Reference::GradientOf(const Tensor& tensor, const Use& use, int rank, int micro_batch) const {
  std::vector<float> g(tensor.weights.size());
  for (size_t e = 0; e < g.size(); ++e) {
    g[e] = LossScale() * UseGradient({rank, step_, micro_batch}, use.unit, use.parameter,
                                     units_[use.unit].backward_reads_parameters, static_cast<int64_t>(e),
                                     Rounded(options_.dtype, tensor.weights[e]));
  }
  return g;
}

// uses: [micro-batch][i], in order of backward.
void Reference::Reduce(Tensor& tensor, const std::vector<std::vector<Use>>& uses) const {
  const bool reduce_each = ShardsGradients(options_.stage);
  const Precision precision = PrecisionOf(options_, world_size_);
  std::vector<std::vector<float>> on_rank(world_size_);
  std::vector<float> sum;
  std::vector<std::vector<float>> sums;  // of micro-batches, where they are added as ranks are
  for (int m = 0; m < static_cast<int>(uses.size()); ++m) {
    if (uses[m].empty()) continue;
    for (int r = 0; r < world_size_; ++r) {
      for (const Use& use : uses[m]) AddTo(precision.backward, on_rank[r], GradientOf(tensor, use, r, m));
    }
    if (options_.world_invariant) {
      sums.push_back(Stored(precision, std::move(on_rank)));
      on_rank.assign(world_size_, {});
    } else if (reduce_each) {
      AddTo(precision.gradients, sum, Stored(precision, std::move(on_rank)));
      on_rank.assign(world_size_, {});
    }
  }
  if (!sums.empty()) sum = TreeSum(std::move(sums));
  if (!on_rank[0].empty()) sum = Stored(precision, std::move(on_rank));
  sum = Rounded(precision.gradients, std::move(sum));
  if (sum.empty()) sum.resize(tensor.weights.size());
  tensor.gradient = std::move(sum);
}

device::StepScalars Reference::Update() {
  const std::unique_ptr<device::Device> device = device::MakeCpuDevice();
  const std::unique_ptr<device::Stream> stream = device->MakeStream(device::StreamKind::kCompute);
  const auto adopt = [&](auto& values) {
    using T = std::remove_reference_t<decltype(values[0])>;
    return values.empty() ? Array()
                          : device->Adopt(values.data(), static_cast<int64_t>(values.size() * sizeof(T)))
                                ->As(device::DTypeOf<T>::value);
  };
  std::vector<int64_t> sum(device::kExactSumWords);
  for (Tensor& tensor : tensors_) {
    if (tensor.spec.trainable && !tensor.spec.frozen && !tensor.weights.empty())
      device->step().AddPowers(*stream, adopt(tensor.gradient),
                               device::OnePiece(static_cast<int64_t>(tensor.gradient.size())), 2, adopt(sum));
  }
  const device::StepRule rule = optim::MakeStepRule(options_.optimizer, GradientScale(options_, world_size_), options_.clip);
  std::vector<uint8_t> scalars(sizeof(scalars_));
  std::memcpy(scalars.data(), &scalars_, sizeof(scalars_));
  device->step().DeriveScalars(*stream, adopt(sum), rule, std::nullopt, adopt(scalars));
  std::memcpy(&scalars_, scalars.data(), sizeof(scalars_));
  const optim::OptimizerOptions& o = options_.optimizer;
  for (Tensor& t : tensors_) {
    if (!t.spec.trainable || t.spec.frozen || t.weights.empty()) continue;
    const optim::GroupOptions& group = o.groups[t.spec.group];
    const auto count = static_cast<int64_t>(t.weights.size());
    if (o.kind == optim::Kind::kSgd) {
      const device::SgdPass pass{.momentum = o.momentum,
                                 .nesterov = o.nesterov,
                                 .weight_decay = group.weight_decay,
                                 .learning_rate_scale = group.learning_rate_scale};
      device->step().Sgd(*stream, device::OnePiece(count, pass), adopt(t.gradient), adopt(scalars), adopt(t.weights),
                         o.momentum == 0 ? Array() : adopt(t.moments[0]), {});
    } else {
      const device::AdamPass pass{.eps = o.eps,
                                  .weight_decay = group.weight_decay,
                                  .learning_rate_scale = group.learning_rate_scale,
                                  .decoupled = o.kind == optim::Kind::kAdamW};
      device->step().Adam(*stream, device::OnePiece(count, pass), adopt(t.gradient), adopt(scalars), adopt(t.weights),
                          adopt(t.moments[0]), adopt(t.moments[1]), {});
    }
  }
  return scalars_;
}

}  // namespace zeroshard::zero::testing
