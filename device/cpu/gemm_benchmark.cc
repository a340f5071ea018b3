// FLOP/s of planned products: the shapes of a 30 M parameter GPT (width 384, context 256, batch 4, vocabulary 50304).
//
//   bazel run //device/cpu:gemm_benchmark -- --benchmark_format=json
#include <cstring>
#include <string>

#include "benchmark/benchmark.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::device {
namespace {

Array Operand(Device& device, Buffer& buffer, int64_t elements, DType dtype, benchmark::State& state) {
  auto allocated = device.Allocate(SizeOf(dtype) * elements, Use::kData, "operand");
  if (!allocated.ok()) {
    state.SkipWithError(std::string(allocated.status().message()).c_str());
    return Array();
  }
  buffer = *std::move(allocated);
  return Array(buffer.array(dtype).address(), elements, dtype);
}

void RunGemm(benchmark::State& state, GemmSpec spec) {
  auto device = MakeCpuDevice({.threads = static_cast<int>(state.range(0))});
  auto stream = device->MakeStream(StreamKind::kCompute);
  auto gemm = device->PlanGemm(spec);
  if (!gemm.ok()) return state.SkipWithError(std::string(gemm.status().message()).c_str());
  Buffer buffers[4];
  const Array a = Operand(*device, buffers[0], spec.m * spec.k, spec.input, state);
  const Array b = Operand(*device, buffers[1], spec.k * spec.n, spec.input, state);
  const Array c = Operand(*device, buffers[2], spec.m * spec.n, spec.output, state);
  const Array bias = Operand(*device, buffers[3], spec.n, spec.bias_dtype, state);
  for (const Array& x : {a, b, c, bias}) device->elementwise().Fill(*stream, x, 0.25);
  for (auto _ : state) (*gemm)->Run(*stream, a, b, c, spec.bias ? bias : Array());
  const double flops = 2.0 * static_cast<double>(spec.m) * static_cast<double>(spec.n) * static_cast<double>(spec.k);
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

constexpr int64_t kRows = 1024, kWidth = 384, kHeadRows = 256, kVocabulary = 50304;

#define ZS_GEMM(name, ...) BENCHMARK_CAPTURE(RunGemm, name, GemmSpec __VA_ARGS__)->Arg(1)->Arg(2)->ArgName("threads")
#define ZS_BF16 .input = DType::kBfloat16, .output = DType::kBfloat16
#define ZS_BF16_TO_FP32 .input = DType::kBfloat16

ZS_GEMM(qkv, {.m = kRows, .k = kWidth, .n = 3 * kWidth, .transpose_b = true, .bias = true});
ZS_GEMM(fc, {.m = kRows, .k = kWidth, .n = 4 * kWidth, .transpose_b = true, .bias = true});
ZS_GEMM(projection, {.m = kRows, .k = 4 * kWidth, .n = kWidth, .transpose_b = true, .bias = true, .accumulate = true});
ZS_GEMM(fc_input_gradient, {.m = kRows, .k = 4 * kWidth, .n = kWidth});
ZS_GEMM(fc_weight_gradient, {.m = 4 * kWidth, .k = kRows, .n = kWidth, .transpose_a = true});
ZS_GEMM(logits, {.m = kHeadRows, .k = kWidth, .n = kVocabulary, .transpose_b = true});
ZS_GEMM(head_weight_gradient, {.m = kVocabulary, .k = kHeadRows, .n = kWidth, .transpose_a = true, .accumulate = true});

ZS_GEMM(bf16_qkv, {.m = kRows, .k = kWidth, .n = 3 * kWidth, .transpose_b = true, .bias = true, ZS_BF16});
ZS_GEMM(bf16_fc, {.m = kRows, .k = kWidth, .n = 4 * kWidth, .transpose_b = true, .bias = true, ZS_BF16});
ZS_GEMM(bf16_projection,
        {.m = kRows, .k = 4 * kWidth, .n = kWidth, .transpose_b = true, .bias = true, .accumulate = true, ZS_BF16_TO_FP32});
ZS_GEMM(bf16_fc_input_gradient, {.m = kRows, .k = 4 * kWidth, .n = kWidth, ZS_BF16});
ZS_GEMM(bf16_fc_weight_gradient, {.m = 4 * kWidth, .k = kRows, .n = kWidth, .transpose_a = true, ZS_BF16});
ZS_GEMM(bf16_logits, {.m = 2 * kHeadRows, .k = kWidth, .n = 512, .transpose_b = true, ZS_BF16_TO_FP32});
ZS_GEMM(bf16_head_weight_gradient,
        {.m = 512, .k = 2 * kHeadRows, .n = kWidth, .transpose_a = true, .accumulate = true, ZS_BF16_TO_FP32});
ZS_GEMM(fp16_fc, {.m = kRows, .k = kWidth, .n = 4 * kWidth, .transpose_b = true, .bias = true, .input = DType::kFloat16});

}  // namespace
}  // namespace zeroshard::device

BENCHMARK_MAIN();
