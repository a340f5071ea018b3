#include "zeroshard/model/reference_gpt.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zeroshard::model {
namespace {

using Values = ReferenceGpt::Values;

Values Norm(const Values& x, const Values& weight, const Values& bias) {
  const size_t width = weight.size();
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i) mean += x[row + i] / width;
    for (size_t i = 0; i < width; ++i) variance += (x[row + i] - mean) * (x[row + i] - mean) / width;
    for (size_t i = 0; i < width; ++i) y[row + i] = (x[row + i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
  }
  return y;
}

// x [rows, in], weight [out, in].
Values Project(const Values& x, const Values& weight, const Values& bias) {
  const size_t out = bias.size(), in = weight.size() / out, rows = x.size() / in;
  Values y(rows * out);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t o = 0; o < out; ++o) {
      double sum = bias[o];
      for (size_t i = 0; i < in; ++i) sum += x[row * in + i] * weight[o * in + i];
      y[row * out + o] = sum;
    }
  }
  return y;
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }

void AddTo(Values& x, const Values& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

ReferenceGpt::ReferenceGpt(const GptOptions& options, const std::function<std::vector<float>(const std::string&)>& read)
    : options_(options) {
  const std::vector<UnitSpec> units = GptUnits(options).value();
  for (const UnitSpec& unit : units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (!parameter.tied_to.empty()) continue;
      const std::vector<float> values = read(parameter.name);
      parameters_[parameter.name] = Values(values.begin(), values.end());
    }
  }
}

Values ReferenceGpt::Attention(const Values& qkv, int64_t rows) const {
  const int64_t width = options_.width, context = options_.context, d = width / options_.heads;
  Values out(rows * context * width);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t head = 0; head < options_.heads; ++head) {
      const auto at = [&](int64_t position, int64_t part) {
        return &qkv[(row * context + position) * 3 * width + part * width + head * d];
      };
      for (int64_t query = 0; query < context; ++query) {
        Values scores(query + 1);
        double sum = 0;
        for (int64_t key = 0; key <= query; ++key) {
          for (int64_t i = 0; i < d; ++i) scores[key] += at(query, 0)[i] * at(key, 1)[i] / std::sqrt(double(d));
        }
        const double maximum = *std::max_element(scores.begin(), scores.end());
        for (double& score : scores) sum += score = std::exp(score - maximum);
        for (int64_t key = 0; key <= query; ++key) {
          for (int64_t i = 0; i < d; ++i) {
            out[(row * context + query) * width + head * d + i] += scores[key] / sum * at(key, 2)[i];
          }
        }
      }
    }
  }
  return out;
}

Values ReferenceGpt::Final(std::span<const int32_t> inputs, int64_t rows) const {
  const int64_t width = options_.width, context = options_.context;
  Values x(rows * context * width);
  for (int64_t t = 0; t < rows * context; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      x[t * width + i] =
          p("transformer.wte.weight")[inputs[t] * width + i] + p("transformer.wpe.weight")[t % context * width + i];
    }
  }
  for (int64_t layer = 0; layer < options_.layers; ++layer) {
    const std::string h = "transformer.h." + std::to_string(layer) + ".";
    const Values qkv =
        Project(Norm(x, p(h + "ln_1.weight"), p(h + "ln_1.bias")), p(h + "attn.c_attn.weight"), p(h + "attn.c_attn.bias"));
    AddTo(x, Project(Attention(qkv, rows), p(h + "attn.c_proj.weight"), p(h + "attn.c_proj.bias")));
    Values fc = Project(Norm(x, p(h + "ln_2.weight"), p(h + "ln_2.bias")), p(h + "mlp.c_fc.weight"), p(h + "mlp.c_fc.bias"));
    for (double& value : fc) value = Gelu(value);
    AddTo(x, Project(fc, p(h + "mlp.c_proj.weight"), p(h + "mlp.c_proj.bias")));
  }
  return Norm(x, p("transformer.ln_f.weight"), p("transformer.ln_f.bias"));
}

Values ReferenceGpt::LogitsOf(const Values& normed, int64_t token) const {
  const Values row(normed.begin() + token * options_.width, normed.begin() + (token + 1) * options_.width);
  return Project(row, p(options_.tied ? "transformer.wte.weight" : "lm_head.weight"), Values(options_.vocab));
}

double ReferenceGpt::LossSum(std::span<const int32_t> inputs, std::span<const int32_t> targets, int64_t rows) const {
  const Values normed = Final(inputs, rows);
  double loss = 0;
  for (int64_t t = 0; t < rows * options_.context; ++t) {
    if (targets[t] < 0) continue;
    const Values logits = LogitsOf(normed, t);
    const double maximum = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - maximum);
    loss += std::log(sum) + maximum - logits[targets[t]];
  }
  return loss;
}

Values ReferenceGpt::Logits(std::span<const int32_t> inputs, int64_t rows, int64_t row, int64_t position) const {
  return LogitsOf(Final(inputs, rows), row * options_.context + position);
}

}  // namespace zeroshard::model
