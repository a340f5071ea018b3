#include "zeroshard/device/cpu/cpu_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "zeroshard/device/cpu/attention_kernels.h"
#include "zeroshard/device/cpu/cpu_gemm.h"
#include "zeroshard/device/cpu/cpu_stream.h"
#include "zeroshard/device/cpu/parallel.h"
#include "zeroshard/device/host_launch.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::device {
namespace {

// Positions of a block: scores of 64 rows and their gradients stay in the cache up to contexts of thousands.
constexpr int64_t kBlock = 64;

// The products of one block of positions [first, first + rows) of a head.
struct BlockPlans {
  int64_t first = 0, rows = 0;
  std::unique_ptr<Gemm> scores;      // [rows, last]: queries of the block, all keys up to it
  std::unique_ptr<Gemm> values;      // [rows, head_width]
  std::unique_ptr<Gemm> transposed;  // [rows, from]: keys (or values) of the block, all queries from it on
  std::unique_ptr<Gemm> d_keys;      // [rows, head_width]
  std::unique_ptr<Gemm> d_queries;   // [from, head_width], added up but for the first block
};

absl::StatusOr<BlockPlans> PlanBlock(const AttentionSpec& spec, int64_t first, Device& device, FirstError& error) {
  const int64_t rows = std::min(kBlock, spec.context - first), last = first + rows, from = spec.context - first;
  const int64_t d = spec.head_width;
  BlockPlans plans;
  plans.first = first;
  plans.rows = rows;
  const auto plan = [&](const GemmSpec& gemm) { return PlanCpuGemm(gemm, /*threads=*/1, device, error); };
  ZS_ASSIGN_OR_RETURN(plans.scores, plan({.m = rows, .k = d, .n = last, .transpose_b = true}));
  ZS_ASSIGN_OR_RETURN(plans.values, plan({.m = rows, .k = last, .n = d}));
  ZS_ASSIGN_OR_RETURN(plans.transposed, plan({.m = rows, .k = d, .n = from, .transpose_b = true}));
  ZS_ASSIGN_OR_RETURN(plans.d_keys, plan({.m = rows, .k = from, .n = d}));
  ZS_ASSIGN_OR_RETURN(plans.d_queries, plan({.m = from, .k = rows, .n = d, .transpose_a = true, .accumulate = first != 0}));
  return plans;
}

// Rows of [width] from one stride to another.
void CopyRows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, static_cast<size_t>(width) * sizeof(float));
  }
}

// What one thread needs to work on a head: plans, and scratch in the workspace, all dense.
struct Worker {
  std::vector<BlockPlans> blocks;
};

struct Scratch {
  float *q, *k, *v, *d_out, *d_q;  // [context, head_width]
  float *scores, *d_scores;        // [kBlock, context]
  float *block_out, *d_k_or_v;     // [kBlock, head_width]
  float* dots;                     // [context]
};

int64_t Rounded(int64_t elements) { return (elements + 63) / 64 * 64; }

// Elements of a thread's scratch; hands out the arrays from `base` where that is not null.
int64_t LayOut(const AttentionSpec& spec, float* base, Scratch* scratch) {
  int64_t used = 0;
  const auto take = [&](float*& array, int64_t elements) {
    if (base != nullptr) array = base + used;
    used += Rounded(elements);
  };
  Scratch unused;
  Scratch& s = scratch == nullptr ? unused : *scratch;
  for (float** array : {&s.q, &s.k, &s.v, &s.d_out, &s.d_q}) take(*array, spec.context * spec.head_width);
  for (float** array : {&s.scores, &s.d_scores}) take(*array, std::min(kBlock, spec.context) * spec.context);
  for (float** array : {&s.block_out, &s.d_k_or_v}) take(*array, kBlock * spec.head_width);
  take(s.dots, spec.context);
  return used;
}

Array Fp32(const float* data, int64_t elements) {
  return Array(reinterpret_cast<uint64_t>(data), elements, DType::kFloat32);
}

class CpuAttention final : public Attention {
 public:
  CpuAttention(const AttentionSpec& spec, int threads, Device& device)
      : spec_(spec),
        threads_(threads),
        scratch_elements_(LayOut(spec, nullptr, nullptr)),
        now_(device, StreamKind::kCompute),
        scale_(1.0f / std::sqrt(static_cast<float>(spec.head_width))) {}

  absl::Status Plan(Device& device, FirstError& error);
  const AttentionSpec& spec() const override { return spec_; }
  int64_t workspace_bytes() const override { return threads_ * scratch_elements_ * SizeOf(DType::kFloat32); }
  void Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) override;
  void Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) override;

 private:
  int64_t width() const { return spec_.heads * spec_.head_width; }
  void CopyHead(const float* qkv, const Scratch& s) const;
  void ForwardHead(const Worker& worker, const Scratch& s, const float* qkv, float* out, float* log_sum_exp);
  void BackwardHead(const Worker& worker, const Scratch& s, const float* qkv, const float* out, const float* log_sum_exp,
                    const float* d_out, float* d_qkv);
  void BackwardBlock(const BlockPlans& block, const Scratch& s, const float* log_sum_exp, float* d_qkv);
  // body(worker, scratch, sequence, head) for every head, spread over threads.
  template <class Body>
  void ForHeads(std::span<float> workspace, Body body);

  const AttentionSpec spec_;
  const int threads_;
  const int64_t scratch_elements_;
  CpuStream now_;  // runs a product at once, inside an operation
  const float scale_;
  std::vector<Worker> workers_;  // [threads]
};

absl::Status CpuAttention::Plan(Device& device, FirstError& error) {
  workers_.resize(static_cast<size_t>(threads_));
  for (Worker& worker : workers_) {
    for (int64_t first = 0; first < spec_.context; first += kBlock) {
      ZS_ASSIGN_OR_RETURN(BlockPlans block, PlanBlock(spec_, first, device, error));
      worker.blocks.push_back(std::move(block));
    }
  }
  return absl::OkStatus();
}

template <class Body>
void CpuAttention::ForHeads(std::span<float> workspace, Body body) {
  const int64_t heads = spec_.batch * spec_.heads;
  ParallelFor(threads_, threads_, /*grain=*/1, [&](int64_t thread, int64_t) {
    Scratch scratch;
    LayOut(spec_, workspace.data() + thread * scratch_elements_, &scratch);
    for (int64_t i = heads * thread / threads_; i < heads * (thread + 1) / threads_; ++i) {
      body(workers_[static_cast<size_t>(thread)], scratch, i / spec_.heads, i % spec_.heads);
    }
  });
}

// `qkv`: the head's queries in the first row.
void CpuAttention::CopyHead(const float* qkv, const Scratch& s) const {
  const int64_t d = spec_.head_width;
  CopyRows(qkv, 3 * width(), s.q, d, spec_.context, d);
  CopyRows(qkv + width(), 3 * width(), s.k, d, spec_.context, d);
  CopyRows(qkv + 2 * width(), 3 * width(), s.v, d, spec_.context, d);
}

void CpuAttention::ForwardHead(const Worker& worker, const Scratch& s, const float* qkv, float* out, float* log_sum_exp) {
  const int64_t d = spec_.head_width;
  CopyHead(qkv, s);
  for (const BlockPlans& block : worker.blocks) {
    const int64_t last = block.first + block.rows;
    const Array scores = Fp32(s.scores, block.rows * last), block_out = Fp32(s.block_out, block.rows * d);
    block.scores->Run(now_, Fp32(s.q + block.first * d, block.rows * d), Fp32(s.k, last * d), scores);
    CausalSoftmax(
        {.rows = block.rows, .keys = last, .scale = scale_, .scores = s.scores, .log_sum_exp = log_sum_exp + block.first});
    block.values->Run(now_, scores, Fp32(s.v, last * d), block_out);
    CopyRows(s.block_out, d, out + block.first * width(), width(), block.rows, d);
  }
}

void CpuAttention::BackwardHead(const Worker& worker, const Scratch& s, const float* qkv, const float* out,
                                const float* log_sum_exp, const float* d_out, float* d_qkv) {
  const int64_t d = spec_.head_width, context = spec_.context;
  CopyHead(qkv, s);
  CopyRows(d_out, width(), s.d_out, d, context, d);
  InnerProducts(s.d_out, out, width(), context, d, s.dots);
  for (const BlockPlans& block : worker.blocks) BackwardBlock(block, s, log_sum_exp, d_qkv);
  CopyRows(s.d_q, d, d_qkv, 3 * width(), context, d);
}

void CpuAttention::BackwardBlock(const BlockPlans& block, const Scratch& s, const float* log_sum_exp, float* d_qkv) {
  const int64_t d = spec_.head_width, from = spec_.context - block.first, at = block.first * d;
  const Array scores = Fp32(s.scores, block.rows * from), d_scores = Fp32(s.d_scores, block.rows * from);
  const Array queries = Fp32(s.q + at, from * d), keys = Fp32(s.k + at, block.rows * d);
  const Array d_outs = Fp32(s.d_out + at, from * d), result = Fp32(s.d_k_or_v, block.rows * d);
  block.transposed->Run(now_, keys, queries, scores);
  block.transposed->Run(now_, Fp32(s.v + at, block.rows * d), d_outs, d_scores);
  CausalSoftmaxBackward({.rows = block.rows,
                         .queries = from,
                         .scale = scale_,
                         .scores = s.scores,
                         .d_probabilities = s.d_scores,
                         .log_sum_exp = log_sum_exp + block.first,
                         .d_dot_out = s.dots + block.first});
  float* d_key = d_qkv + block.first * 3 * width() + width();
  block.d_keys->Run(now_, d_scores, queries, result);
  CopyRows(s.d_k_or_v, d, d_key, 3 * width(), block.rows, d);
  block.d_keys->Run(now_, scores, d_outs, result);
  CopyRows(s.d_k_or_v, d, d_key + width(), 3 * width(), block.rows, d);
  block.d_queries->Run(now_, d_scores, keys, Fp32(s.d_q + at, from * d));
}

void CpuAttention::Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) {
  const int64_t elements = spec_.batch * spec_.context * width();
  CHECK(qkv.array.elements() == 3 * elements && out.array.elements() == elements) << "attention: rows";
  CHECK_EQ(log_sum_exp.array.elements(), spec_.batch * spec_.heads * spec_.context) << "attention: log_sum_exp";
  CHECK_GE(workspace.array.bytes(), workspace_bytes()) << "attention: workspace";
  const auto run = [this](std::span<const float> from, std::span<float> to, std::span<float> lse, std::span<float> work) {
    ForHeads(work, [&](const Worker& worker, const Scratch& scratch, int64_t sequence, int64_t head) {
      const int64_t row = sequence * spec_.context, column = head * spec_.head_width;
      ForwardHead(worker, scratch, from.data() + row * 3 * width() + column, to.data() + row * width() + column,
                  lse.data() + (sequence * spec_.heads + head) * spec_.context);
    });
  };
  HostLaunch(stream, "attention", run, Read<float>(qkv), Write<float>(out), Write<float>(log_sum_exp),
             Update<float>(workspace));
}

void CpuAttention::Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) {
  const int64_t elements = spec_.batch * spec_.context * width();
  CHECK(qkv.array.elements() == 3 * elements && d_qkv.array.elements() == 3 * elements) << "attention backward: rows";
  CHECK(out.array.elements() == elements && d_out.array.elements() == elements) << "attention backward: rows";
  CHECK_EQ(log_sum_exp.array.elements(), spec_.batch * spec_.heads * spec_.context) << "attention backward: log_sum_exp";
  CHECK_GE(workspace.array.bytes(), workspace_bytes()) << "attention backward: workspace";
  const auto run = [this](std::span<const float> from, std::span<const float> result, std::span<const float> lse,
                          std::span<const float> d_result, std::span<float> to, std::span<float> work) {
    ForHeads(work, [&](const Worker& worker, const Scratch& scratch, int64_t sequence, int64_t head) {
      const int64_t row = sequence * spec_.context, column = head * spec_.head_width;
      const int64_t one = row * width() + column, three = row * 3 * width() + column;
      BackwardHead(worker, scratch, from.data() + three, result.data() + one,
                   lse.data() + (sequence * spec_.heads + head) * spec_.context, d_result.data() + one, to.data() + three);
    });
  };
  HostLaunch(stream, "attention backward", run, Read<float>(qkv), Read<float>(out), Read<float>(log_sum_exp),
             Read<float>(d_out), Write<float>(d_qkv), Update<float>(workspace));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> PlanCpuAttention(const AttentionSpec& spec, int threads, Device& device,
                                                            FirstError& error) {
  if (spec.batch < 1 || spec.heads < 1 || spec.context < 1 || spec.head_width < 1) {
    return absl::InvalidArgumentError(absl::StrCat("attention: batch ", spec.batch, ", heads ", spec.heads, ", context ",
                                                   spec.context, ", head_width ", spec.head_width,
                                                   ": each must be at least 1"));
  }
  if (spec.dtype != DType::kFloat32) {
    return absl::UnimplementedError(absl::StrCat("attention on the CPU: fp32 alone, not ", std::string(Name(spec.dtype))));
  }
  auto attention = std::make_unique<CpuAttention>(spec, threads, device);
  ZS_RETURN_IF_ERROR(attention->Plan(device, error));
  return attention;
}

}  // namespace zeroshard::device
