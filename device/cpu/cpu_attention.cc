#include "zeroshard/device/cpu/cpu_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "zeroshard/device/cpu/attention_kernels.h"
#include "zeroshard/device/cpu/convert_rows.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/cpu_stream.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/kernel_checks.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

using std::byte;

// Positions of a block: scores of 64 rows and their gradients stay in the cache up to contexts of thousands.
constexpr int64_t kBlock = 64;

// The products of one block of positions [first, first + rows) of a head. Operands, and what goes back into a head's rows, are of
// the dtype of products; scores, their gradients and d_queries fp32.
struct BlockPlans {
  int64_t first = 0, rows = 0;
  std::unique_ptr<Gemm> scores;      // [rows, last]: queries of the block, all keys up to it
  std::unique_ptr<Gemm> values;      // [rows, head_width]
  std::unique_ptr<Gemm> transposed;  // [rows, from]: keys (or values) of the block, all queries from it on
  std::unique_ptr<Gemm> d_keys;      // [rows, head_width]
  std::unique_ptr<Gemm> d_queries;   // [from, head_width], added up but for the first block
};

absl::StatusOr<BlockPlans> PlanBlock(const AttentionSpec& spec, DType dtype, int64_t first, Device& device,
                                     FirstError& error) {
  const int64_t rows = std::min(kBlock, spec.context - first), last = first + rows, from = spec.context - first;
  const int64_t d = spec.head_width;
  BlockPlans plans;
  plans.first = first;
  plans.rows = rows;
  const auto plan = [&](GemmSpec gemm, DType output) {
    gemm.input = dtype;
    gemm.output = output;
    return PlanCpuGemm(gemm, /*threads=*/1, device, error);
  };
  const DType wide = DType::kFloat32;
  ZS_ASSIGN_OR_RETURN(plans.scores, plan({.m = rows, .k = d, .n = last, .transpose_b = true}, wide));
  ZS_ASSIGN_OR_RETURN(plans.values, plan({.m = rows, .k = last, .n = d}, dtype));
  ZS_ASSIGN_OR_RETURN(plans.transposed, plan({.m = rows, .k = d, .n = from, .transpose_b = true}, wide));
  ZS_ASSIGN_OR_RETURN(plans.d_keys, plan({.m = rows, .k = from, .n = d}, dtype));
  ZS_ASSIGN_OR_RETURN(plans.d_queries,
                      plan({.m = from, .k = rows, .n = d, .transpose_a = true, .accumulate = first != 0}, wide));
  return plans;
}

// What one thread needs to work on a head: plans, and scratch in the workspace, all dense.
struct Worker {
  std::vector<BlockPlans> blocks;
};

// Arrays of the dtype of products but where they say fp32.
struct Scratch {
  byte *q, *k, *v, *d_out;           // [context, head_width]
  byte *probabilities, *d_products;  // [kBlock, context]; in fp32 those below
  byte *block_out, *d_k_or_v;        // [kBlock, head_width]
  float *d_q, *scores, *d_scores;    // fp32 [context, head_width]; [kBlock, context]
  float* dots;                       // fp32 [context]
};

// Bytes of a thread's scratch; hands out the arrays from `base` where that is not null.
int64_t LayOut(const AttentionSpec& spec, DType dtype, byte* base, Scratch* scratch) {
  int64_t used = 0;
  const auto take = [&](auto*& array, DType of, int64_t elements) {
    if (base != nullptr) array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(base + used);
    used += (elements * SizeOf(of) + 255) / 256 * 256;
  };
  Scratch unused;
  Scratch& s = scratch == nullptr ? unused : *scratch;
  const int64_t block = std::min(kBlock, spec.context) * spec.context;
  for (byte** array : {&s.q, &s.k, &s.v, &s.d_out}) take(*array, dtype, spec.context * spec.head_width);
  for (byte** array : {&s.block_out, &s.d_k_or_v}) take(*array, dtype, kBlock * spec.head_width);
  take(s.d_q, DType::kFloat32, spec.context * spec.head_width);
  for (float** array : {&s.scores, &s.d_scores}) take(*array, DType::kFloat32, block);
  take(s.dots, DType::kFloat32, spec.context);
  if (dtype != DType::kFloat32) {
    for (byte** array : {&s.probabilities, &s.d_products}) take(*array, dtype, block);
  } else if (base != nullptr) {
    s.probabilities = reinterpret_cast<byte*>(s.scores);
    s.d_products = reinterpret_cast<byte*>(s.d_scores);
  }
  return used;
}

Array Fp32(const float* data, int64_t elements) {
  return Array(reinterpret_cast<uint64_t>(data), elements, DType::kFloat32);
}

class CpuAttention final : public Attention {
 public:
  CpuAttention(const AttentionSpec& spec, DType products, int threads, Device& device)
      : spec_(spec),
        products_(products),
        threads_(threads),
        scratch_bytes_(LayOut(spec, products, nullptr, nullptr)),
        now_(device, StreamKind::kCompute),
        scale_(1.0f / std::sqrt(static_cast<float>(spec.head_width))) {}

  absl::Status Plan(Device& device, FirstError& error);
  const AttentionSpec& spec() const override { return spec_; }
  int64_t workspace_bytes() const override { return threads_ * scratch_bytes_; }
  void Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) override;
  void Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) override;

 private:
  int64_t width() const { return spec_.heads * spec_.head_width; }
  // Bytes of so many elements of qkv, out and their gradients.
  int64_t Stored(int64_t elements) const { return elements * SizeOf(spec_.dtype); }
  // Elements of scratch in the dtype of products, from `first` on.
  Array Operand(const byte* data, int64_t first, int64_t elements) const {
    return Array(reinterpret_cast<uint64_t>(data), 0, products_).Slice(first, elements);
  }
  void CopyHead(const byte* qkv, const Scratch& s) const;
  void ForwardHead(const Worker& worker, const Scratch& s, const byte* qkv, byte* out, float* log_sum_exp);
  void BackwardHead(const Worker& worker, const Scratch& s, const byte* qkv, const byte* out, const float* log_sum_exp,
                    const byte* d_out, byte* d_qkv);
  void BackwardBlock(const BlockPlans& block, const Scratch& s, const float* log_sum_exp, byte* d_qkv);
  // body(worker, scratch, sequence, head) for every head, spread over threads.
  template <class Body>
  void ForHeads(std::span<byte> workspace, Body body);

  const AttentionSpec spec_;
  const DType products_;
  const int threads_;
  const int64_t scratch_bytes_;
  CpuStream now_;  // runs a product at once, inside an operation
  const float scale_;
  std::vector<Worker> workers_;  // [threads]
};

absl::Status CpuAttention::Plan(Device& device, FirstError& error) {
  workers_.resize(static_cast<size_t>(threads_));
  for (Worker& worker : workers_) {
    for (int64_t first = 0; first < spec_.context; first += kBlock) {
      ZS_ASSIGN_OR_RETURN(BlockPlans block, PlanBlock(spec_, products_, first, device, error));
      worker.blocks.push_back(std::move(block));
    }
  }
  return absl::OkStatus();
}

template <class Body>
void CpuAttention::ForHeads(std::span<byte> workspace, Body body) {
  const int64_t heads = spec_.batch * spec_.heads;
  ParallelFor(threads_, threads_, /*grain=*/1, [&](int64_t thread, int64_t) {
    Scratch scratch;
    LayOut(spec_, products_, workspace.data() + thread * scratch_bytes_, &scratch);
    for (int64_t i = heads * thread / threads_; i < heads * (thread + 1) / threads_; ++i) {
      body(workers_[static_cast<size_t>(thread)], scratch, i / spec_.heads, i % spec_.heads);
    }
  });
}

// `qkv`: the head's queries in the first row.
void CpuAttention::CopyHead(const byte* qkv, const Scratch& s) const {
  const int64_t d = spec_.head_width;
  byte* const parts[] = {s.q, s.k, s.v};
  for (int64_t part = 0; part < 3; ++part) {
    ConvertRows({spec_.dtype, qkv + Stored(part * width()), 3 * width()}, {products_, parts[part], d}, spec_.context, d);
  }
}

void CpuAttention::ForwardHead(const Worker& worker, const Scratch& s, const byte* qkv, byte* out, float* log_sum_exp) {
  const int64_t d = spec_.head_width;
  CopyHead(qkv, s);
  for (const BlockPlans& block : worker.blocks) {
    const int64_t last = block.first + block.rows;
    const Array block_out = Operand(s.block_out, 0, block.rows * d);
    block.scores->Run(now_, Operand(s.q, block.first * d, block.rows * d), Operand(s.k, 0, last * d),
                      Fp32(s.scores, block.rows * last));
    CausalSoftmax({.rows = block.rows,
                   .keys = last,
                   .scale = scale_,
                   .scores = s.scores,
                   .dtype = products_,
                   .probabilities = s.probabilities,
                   .log_sum_exp = log_sum_exp + block.first});
    block.values->Run(now_, Operand(s.probabilities, 0, block.rows * last), Operand(s.v, 0, last * d), block_out);
    ConvertRows({products_, s.block_out, d}, {spec_.dtype, out + Stored(block.first * width()), width()}, block.rows, d);
  }
}

void CpuAttention::BackwardHead(const Worker& worker, const Scratch& s, const byte* qkv, const byte* out,
                                const float* log_sum_exp, const byte* d_out, byte* d_qkv) {
  const int64_t d = spec_.head_width, context = spec_.context;
  CopyHead(qkv, s);
  ConvertRows({spec_.dtype, d_out, width()}, {products_, s.d_out, d}, context, d);
  InnerProducts(spec_.dtype, d_out, out, width(), context, d, s.dots);
  for (const BlockPlans& block : worker.blocks) BackwardBlock(block, s, log_sum_exp, d_qkv);
  ConvertRows({DType::kFloat32, s.d_q, d}, {spec_.dtype, d_qkv, 3 * width()}, context, d);
}

void CpuAttention::BackwardBlock(const BlockPlans& block, const Scratch& s, const float* log_sum_exp, byte* d_qkv) {
  const int64_t d = spec_.head_width, from = spec_.context - block.first, at = block.first * d;
  const int64_t scores = block.rows * from;
  const Array queries = Operand(s.q, at, from * d), keys = Operand(s.k, at, block.rows * d);
  const Array d_outs = Operand(s.d_out, at, from * d), result = Operand(s.d_k_or_v, 0, block.rows * d);
  const Array probabilities = Operand(s.probabilities, 0, scores), d_products = Operand(s.d_products, 0, scores);
  block.transposed->Run(now_, keys, queries, Fp32(s.scores, scores));
  block.transposed->Run(now_, Operand(s.v, at, block.rows * d), d_outs, Fp32(s.d_scores, scores));
  CausalSoftmaxBackward({.rows = block.rows,
                         .queries = from,
                         .scale = scale_,
                         .scores = s.scores,
                         .d_probabilities = s.d_scores,
                         .dtype = products_,
                         .probabilities = s.probabilities,
                         .d_scores = s.d_products,
                         .log_sum_exp = log_sum_exp + block.first,
                         .d_dot_out = s.dots + block.first});
  byte* d_key = d_qkv + Stored(block.first * 3 * width() + width());
  block.d_keys->Run(now_, d_products, queries, result);
  ConvertRows({products_, s.d_k_or_v, d}, {spec_.dtype, d_key, 3 * width()}, block.rows, d);
  block.d_keys->Run(now_, probabilities, d_outs, result);
  ConvertRows({products_, s.d_k_or_v, d}, {spec_.dtype, d_key + Stored(width()), 3 * width()}, block.rows, d);
  block.d_queries->Run(now_, d_products, keys, Fp32(s.d_q + at, from * d));
}

void CpuAttention::Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) {
  kernel_checks::Attention(spec_, qkv.array, out.array, log_sum_exp.array);
  kernel_checks::AttentionWorkspace(workspace_bytes(), workspace.array);
  const auto run = [this](std::span<const byte> from, std::span<byte> to, std::span<float> lse, std::span<byte> work) {
    ForHeads(work, [&](const Worker& worker, const Scratch& scratch, int64_t sequence, int64_t head) {
      const int64_t row = sequence * spec_.context, column = head * spec_.head_width;
      ForwardHead(worker, scratch, from.data() + Stored(row * 3 * width() + column),
                  to.data() + Stored(row * width() + column), lse.data() + (sequence * spec_.heads + head) * spec_.context);
    });
  };
  HostLaunch(stream, "attention", run, Read<byte>(qkv), Write<byte>(out), Write<float>(log_sum_exp),
             Update<byte>(workspace));
}

void CpuAttention::Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) {
  kernel_checks::Attention(spec_, qkv.array, out.array, log_sum_exp.array);
  kernel_checks::Attention(spec_, d_qkv.array, d_out.array, log_sum_exp.array);
  kernel_checks::AttentionWorkspace(workspace_bytes(), workspace.array);
  const auto run = [this](std::span<const byte> from, std::span<const byte> result, std::span<const float> lse,
                          std::span<const byte> d_result, std::span<byte> to, std::span<byte> work) {
    ForHeads(work, [&](const Worker& worker, const Scratch& scratch, int64_t sequence, int64_t head) {
      const int64_t row = sequence * spec_.context, column = head * spec_.head_width;
      const int64_t one = Stored(row * width() + column), three = Stored(row * 3 * width() + column);
      BackwardHead(worker, scratch, from.data() + three, result.data() + one,
                   lse.data() + (sequence * spec_.heads + head) * spec_.context, d_result.data() + one, to.data() + three);
    });
  };
  HostLaunch(stream, "attention backward", run, Read<byte>(qkv), Read<byte>(out), Read<float>(log_sum_exp),
             Read<byte>(d_out), Write<byte>(d_qkv), Update<byte>(workspace));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> PlanCpuAttention(const AttentionSpec& spec, int threads, Device& device,
                                                            FirstError& error, Bfloat16Products bfloat16) {
  ZS_RETURN_IF_ERROR(kernel_checks::CheckAttention(spec));
  const bool narrow = spec.dtype == DType::kBfloat16 && bfloat16 == Bfloat16Products::kNative;
  const DType products = narrow ? DType::kBfloat16 : DType::kFloat32;
  auto attention = std::make_unique<CpuAttention>(spec, products, threads, device);
  ZS_RETURN_IF_ERROR(attention->Plan(device, error));
  return attention;
}

}  // namespace zeroshard::device
