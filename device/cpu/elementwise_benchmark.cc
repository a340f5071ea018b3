// Bytes/s of elementwise kernels and reductions beside memcpy's, on memory larger than the caches that belong to a core.
// Bytes are those read and written, each once.
//
//   bazel run //device/cpu:elementwise_benchmark -- --benchmark_format=json
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "zeroshard/device/cpu/elementwise_kernels.h"
#include "zeroshard/device/cpu/host_memory.h"
#include "zeroshard/device/cpu/reduce.h"

namespace zeroshard::device {
namespace {

constexpr int64_t kElements = 8 << 20;

void* Take(std::vector<HostMemory>& memory) {
  auto mapped = HostMemory::Map(8 * kElements);
  if (!mapped.ok()) return nullptr;
  memory.push_back(*std::move(mapped));
  return memory.back().data();
}

// Runs body(x, y) on two arrays of kElements; `bytes` an element are moved.
template <class Body>
void Measure(benchmark::State& state, int64_t bytes, Body body) {
  std::vector<HostMemory> memory;
  void *const x = Take(memory), *const y = Take(memory);
  if (x == nullptr || y == nullptr) return state.SkipWithError("no memory");
  for (auto _ : state) {
    body(x, y);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes * kElements);
}

void Memcpy(benchmark::State& state) {
  Measure(state, 8, [](void* x, void* y) { std::memcpy(y, x, 4 * kElements); });
}
void Fill(benchmark::State& state) {
  Measure(state, 4, [](void*, void* y) { FillElements(DType::kFloat32, 1, y, kElements); });
}
void Scale(benchmark::State& state) {
  Measure(state, 8, [](void*, void* y) { ScaleElements(DType::kFloat32, 1.0, y, kElements); });
}
void Convert(benchmark::State& state, DType from, DType to) {
  Measure(state, SizeOf(from) + SizeOf(to), [&](void* x, void* y) { ConvertElements(from, x, to, y, kElements); });
}
void Accumulate(benchmark::State& state, DType from, DType to) {
  Measure(state, SizeOf(from) + 2 * SizeOf(to), [&](void* x, void* y) { AccumulateElements(from, x, to, y, kElements); });
}

void Reduce(benchmark::State& state, ReduceSpec spec) {
  std::vector<HostMemory> memory;
  std::vector<const void*> parts;
  for (int64_t p = 0; p < state.range(0); ++p) parts.push_back(Take(memory));
  void* const out = Take(memory);
  for (auto _ : state) {
    ReduceParts(spec, parts, out, kElements);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kElements *
                          (state.range(0) * SizeOf(spec.in) + SizeOf(spec.out)));
}

constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBfloat16, kF16 = DType::kFloat16;

BENCHMARK(Memcpy);
BENCHMARK(Fill);
BENCHMARK(Scale);
BENCHMARK_CAPTURE(Convert, fp32_to_bf16, kF32, kBf16);
BENCHMARK_CAPTURE(Convert, bf16_to_fp32, kBf16, kF32);
BENCHMARK_CAPTURE(Convert, fp32_to_fp16, kF32, kF16);
BENCHMARK_CAPTURE(Accumulate, fp32, kF32, kF32);
BENCHMARK_CAPTURE(Accumulate, bf16_to_fp32, kBf16, kF32);
#define ZS_REDUCE(name, ...) BENCHMARK_CAPTURE(Reduce, name, ReduceSpec __VA_ARGS__)->ArgName("parts")
ZS_REDUCE(fp32, {})->Arg(2)->Arg(3)->Arg(4)->Arg(8);
ZS_REDUCE(fp32_past_the_cache, {.stores = Stores::kStreaming})->Arg(2)->Arg(4);
ZS_REDUCE(fp32_average, {.divisor = 2})->Arg(2);
ZS_REDUCE(bf16, {.in = kBf16, .out = kBf16, .divisor = 2})->Arg(2)->Arg(4);
ZS_REDUCE(bf16_to_fp32, {.in = kBf16})->Arg(2);

}  // namespace
}  // namespace zeroshard::device

BENCHMARK_MAIN();
