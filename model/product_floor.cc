#include "zeroshard/model/product_floor.h"

#include <algorithm>
#include <memory>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/timed_stream.h"

namespace zeroshard::model {
namespace {

using device::Buffer;
using device::DType;

// The least of a few runs of `count` products of one shape, on operands of their own.
absl::StatusOr<double> Product(device::Device& device, device::Stream& stream, int64_t count, DType dtype,
                               device::GemmSpec spec) {
  constexpr int kRuns = 4;
  spec.input = spec.output = dtype;
  const auto allocate = [&](int64_t elements) {
    return device.Allocate(count * elements * device::SizeOf(dtype), device::Use::kData, "operands of the floor's products");
  };
  ZS_ASSIGN_OR_RETURN(const std::unique_ptr<device::Gemm> gemm, device.PlanGemm(spec));
  ZS_ASSIGN_OR_RETURN(const Buffer a, allocate(spec.m * spec.k));
  ZS_ASSIGN_OR_RETURN(const Buffer b, allocate(spec.k * spec.n));
  ZS_ASSIGN_OR_RETURN(const Buffer c, allocate(spec.m * spec.n));
  device.elementwise().Fill(stream, a.array(dtype), 0.5);
  device.elementwise().Fill(stream, b.array(dtype), 0.25);
  double least = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const double start = ThreadSeconds();
    for (int64_t i = 0; i < count; ++i) {
      gemm->Run(stream, a.array(dtype).Slice(i * spec.m * spec.k, spec.m * spec.k),
                b.array(dtype).Slice(i * spec.k * spec.n, spec.k * spec.n),
                c.array(dtype).Slice(i * spec.m * spec.n, spec.m * spec.n));
    }
    if (run > 0) least = std::min(least, ThreadSeconds() - start);
  }
  return least;
}

absl::StatusOr<double> Linear(device::Device& device, device::Stream& stream, DType dtype, int64_t rows, int64_t in,
                              int64_t out) {
  ZS_ASSIGN_OR_RETURN(const double forward,
                      Product(device, stream, 1, dtype, {.m = rows, .k = in, .n = out, .transpose_b = true}));
  ZS_ASSIGN_OR_RETURN(const double input, Product(device, stream, 1, dtype, {.m = rows, .k = out, .n = in}));
  ZS_ASSIGN_OR_RETURN(const double weight,
                      Product(device, stream, 1, dtype, {.m = out, .k = rows, .n = in, .transpose_a = true}));
  return forward + input + weight;
}

}  // namespace

absl::StatusOr<double> ProductFloorSeconds(device::Device& device, const GptOptions& options) {
  const std::unique_ptr<device::Stream> stream = device.MakeStream(device::StreamKind::kCompute);
  const int64_t rows = options.batch * options.context, width = options.width, context = options.context;
  const int64_t heads = options.batch * options.heads, head_width = width / options.heads;
  ZS_ASSIGN_OR_RETURN(const double qkv, Linear(device, *stream, options.dtype, rows, width, 3 * width));
  ZS_ASSIGN_OR_RETURN(const double proj, Linear(device, *stream, options.dtype, rows, width, width));
  ZS_ASSIGN_OR_RETURN(const double fc, Linear(device, *stream, options.dtype, rows, width, 4 * width));
  ZS_ASSIGN_OR_RETURN(const double out, Linear(device, *stream, options.dtype, rows, 4 * width, width));
  ZS_ASSIGN_OR_RETURN(const double scores, Product(device, *stream, heads, options.dtype,
                                                   {.m = context, .k = head_width, .n = context, .transpose_b = true}));
  ZS_ASSIGN_OR_RETURN(const double values,
                      Product(device, *stream, heads, options.dtype, {.m = context, .k = context, .n = head_width}));
  ZS_ASSIGN_OR_RETURN(const double head, Linear(device, *stream, options.dtype, rows, width, options.vocab));
  return static_cast<double>(options.layers) * (qkv + proj + fc + out + 3 * (scores + values)) + head;
}

}  // namespace zeroshard::model
