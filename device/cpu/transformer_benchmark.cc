// Processor time of the transformer's kernels and of attention, one call each: the shapes of a 30 M parameter GPT (width 384, 6
// heads, context 256, batch 4, vocabulary 50304), in each dtype.
//
//   bazel run //device/cpu:transformer_benchmark -- --benchmark_filter=bf16
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::device {
namespace {

constexpr int64_t kRows = 1024, kWidth = 384, kColumns = 512, kContext = 256, kHeads = 6, kLossRows = 512;

class Bench {
 public:
  Bench(benchmark::State& state, DType dtype) : state_(state), dtype_(dtype) {}

  Array Make(int64_t elements) { return Make(elements, dtype_); }
  Array Wide(int64_t elements) { return Make(elements, DType::kFloat32); }
  Array Make(int64_t elements, DType dtype) {
    auto buffer = device_->Allocate(elements * SizeOf(dtype), Use::kData, "benchmark");
    if (!buffer.ok()) {
      state_.SkipWithError(std::string(buffer.status().message()).c_str());
      return Array();
    }
    const Array array(buffer->array(DType::kUint8).address(), elements, dtype);
    buffers_.push_back(*std::move(buffer));
    if (IsFloat(dtype)) device_->elementwise().Fill(*stream_, array, 0.25);
    return array;
  }
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  TransformerKernels& kernels() { return device_->transformer(); }

 private:
  benchmark::State& state_;
  const DType dtype_;
  std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::unique_ptr<Stream> stream_ = device_->MakeStream(StreamKind::kCompute);
  std::vector<Buffer> buffers_;
};

void LayerNorm(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const Array x = b.Wide(kRows * kWidth), w = b.Make(kWidth), h = b.Make(kRows * kWidth), r = b.Wide(kRows);
  const Array y = b.Make(kRows * kWidth);
  for (auto _ : state) b.kernels().LayerNorm(b.stream(), x, w, w, h, r, y);
}
void LayerNormBackward(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const int64_t sums = PartialRows(kRows) * kWidth;
  const LayerNormPartials partials{b.Wide(sums), b.Wide(sums), b.Wide(sums)};
  const Array d_y = b.Make(kRows * kWidth), h = b.Make(kRows * kWidth), r = b.Wide(kRows), w = b.Make(kWidth);
  const Array d_x = b.Wide(kRows * kWidth), rounded = dtype == DType::kFloat32 ? Array() : b.Make(kRows * kWidth);
  const Array y = b.Make(kRows * kWidth);
  for (auto _ : state) {
    b.kernels().LayerNormBackward(b.stream(), d_y, h, r, w, d_x, WriteMode::kOverwrite, partials,
                                  {.rounded = rounded, .y = y, .bias = w});
  }
}
void Gelu(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const Array x = b.Make(4 * kRows * kWidth), y = b.Make(4 * kRows * kWidth);
  for (auto _ : state) b.kernels().Gelu(b.stream(), x, y);
}
void GeluBackward(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const Array x = b.Make(4 * kRows * kWidth), d = b.Make(4 * kRows * kWidth);
  const Array partials = b.Wide(PartialRows(kRows) * 4 * kWidth);
  b.device().elementwise().Fill(b.stream(), x, 100);  // GELU of it is itself, run after run
  for (auto _ : state) b.kernels().GeluBackward(b.stream(), x, d, partials, 4 * kWidth);
}
void SumRows(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const Array x = b.Make(3 * kRows * kWidth), sum = b.Wide(3 * kWidth);
  for (auto _ : state) b.kernels().SumRows(b.stream(), x, sum, WriteMode::kOverwrite);
}

// One block of columns; there are 98 or 99 in each of two stretches of rows a step.
struct Loss {
  explicit Loss(Bench& b)
      : rows{.targets = b.Make(kLossRows, DType::kInt32),
             .maximum = b.Wide(kLossRows),
             .sum = b.Make(kLossRows, DType::kFloat64),
             .target_logit = b.Wide(kLossRows)},
        block_maximum(b.Wide(kLossRows)),
        logits(b.Wide(kLossRows * kColumns)),
        exponentials(b.Make(kLossRows * kColumns)) {}
  LossRows rows;
  Array block_maximum, logits, exponentials;
};
void LossExponentials(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const Loss l(b);
  for (auto _ : state) {
    b.kernels().LossExponentials(b.stream(), {0, kColumns}, l.rows, l.logits, l.exponentials, l.block_maximum);
  }
}
void LossGradient(benchmark::State& state, DType dtype) {
  Bench b(state, dtype);
  const Loss l(b);
  b.kernels().LossExponentials(b.stream(), {0, kColumns}, l.rows, l.logits, l.exponentials, l.block_maximum);
  for (auto _ : state) {
    b.kernels().LossGradient(b.stream(), {0, kColumns}, l.rows, l.block_maximum, kColumns, l.exponentials);
  }
}

void Attend(benchmark::State& state, DType dtype, bool backward) {
  Bench b(state, dtype);
  auto plan = b.device().PlanAttention({kRows / kContext, kHeads, kContext, kWidth / kHeads, dtype});
  if (!plan.ok()) return state.SkipWithError(std::string(plan.status().message()).c_str());
  const Array qkv = b.Make(3 * kRows * kWidth), out = b.Make(kRows * kWidth), lse = b.Wide(kRows * kHeads);
  const Array d_qkv = b.Make(3 * kRows * kWidth), workspace = b.Make((*plan)->workspace_bytes(), DType::kUint8);
  (*plan)->Forward(b.stream(), qkv, out, lse, workspace);
  for (auto _ : state) {
    if (backward) {
      (*plan)->Backward(b.stream(), qkv, out, lse, out, d_qkv, workspace);
    } else {
      (*plan)->Forward(b.stream(), qkv, out, lse, workspace);
    }
  }
}
void AttentionForward(benchmark::State& state, DType dtype) { Attend(state, dtype, /*backward=*/false); }
void AttentionBackward(benchmark::State& state, DType dtype) { Attend(state, dtype, /*backward=*/true); }

#define ZS_EACH(name)                                                             \
  BENCHMARK_CAPTURE(name, fp32, DType::kFloat32)->Unit(benchmark::kMicrosecond);  \
  BENCHMARK_CAPTURE(name, bf16, DType::kBfloat16)->Unit(benchmark::kMicrosecond); \
  BENCHMARK_CAPTURE(name, fp16, DType::kFloat16)->Unit(benchmark::kMicrosecond)

ZS_EACH(LayerNorm);
ZS_EACH(LayerNormBackward);
ZS_EACH(Gelu);
ZS_EACH(GeluBackward);
ZS_EACH(SumRows);
ZS_EACH(LossExponentials);
ZS_EACH(LossGradient);
ZS_EACH(AttentionForward);
ZS_EACH(AttentionBackward);

}  // namespace
}  // namespace zeroshard::device

BENCHMARK_MAIN();
