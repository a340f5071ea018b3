#include "zeroshard/model/gpt_head.h"

#include <algorithm>
#include <utility>

#include "zeroshard/device/status_macros.h"
#include "zeroshard/model/gradient_writer.h"

namespace zeroshard::model {
namespace {

using device::Array;
using device::Stream;
using device::WriteMode;

// The unit's parameters, in order.
enum HeadParameter { kNormWeight, kNormBias, kMatrix };

// The part of arrays of [rows] that belongs to a stretch.
device::LossRows SliceRows(const device::LossRows& rows, int64_t first, int64_t count) {
  return {.targets = rows.targets.Slice(first, count),
          .maximum = rows.maximum.Slice(first, count),
          .sum = rows.sum.Slice(first, count),
          .target_logit = rows.target_logit.Slice(first, count)};
}

}  // namespace

std::vector<GptHead::Stretch> GptHead::Stretches(int64_t total, int64_t most, int64_t stride_of) {
  std::vector<Stretch> stretches;
  for (int64_t first = 0; first < total; first += most) {
    const int64_t count = std::min(most, total - first);
    const int64_t stride = (count + stride_of - 1) / stride_of * stride_of;
    stretches.push_back({.first = first, .count = count, .stride = stride, .size = count == most ? 0 : 1});
  }
  return stretches;
}

absl::StatusOr<GptHead> GptHead::Plan(device::Device& device, const GptOptions& options) {
  GptHead head;
  head.width_ = options.width;
  const device::LossBlocks blocks = device.transformer().loss_blocks(options.dtype);
  head.most_columns_ = blocks.columns;
  head.rows_ = Stretches(options.batch * options.context, blocks.rows, 1);
  head.columns_ = Stretches(options.vocab, blocks.columns, blocks.stride_of);
  // The first stretch and the last have all the sizes that there are.
  for (const Stretch& rows : {head.rows_.front(), head.rows_.back()}) {
    for (const Stretch& columns : {head.columns_.front(), head.columns_.back()}) {
      ZS_ASSIGN_OR_RETURN(head.products_[rows.size][columns.size],
                          Linear::Plan(device, {.rows = rows.count,
                                                .in = options.width,
                                                .out = columns.count,
                                                .bias = false,
                                                .add_to_input_gradient = true,
                                                .out_stride = columns.stride,
                                                .dtype = options.dtype,
                                                .gradient = options.gradient_dtype}));
    }
  }
  ZS_ASSIGN_OR_RETURN(
      head.logits_,
      device.PlanGemm({.m = 1, .k = options.width, .n = options.vocab, .transpose_b = true, .input = options.dtype}));
  return head;
}

void GptHead::Forward(Stream& stream, std::span<const Array> parameters, const GptActivations& shared) const {
  stream.device().transformer().LayerNorm(stream, shared.residual, parameters[kNormWeight], parameters[kNormBias],
                                          shared.head_norm.normalized, shared.head_norm.inverse_deviation, shared.y);
}

Array GptHead::Exponentials(const GptActivations& shared, const Stretch& rows, const Stretch& columns) const {
  return shared.exponentials.Slice(columns.first * rows.count, rows.count * columns.stride);
}

Array GptHead::BlockMaximum(const GptActivations& shared, const Stretch& rows, const Stretch& columns) const {
  return shared.block_maximum.Slice(columns.first / most_columns_ * rows.count, rows.count);
}

device::VocabularyColumns GptHead::Vocabulary(const Stretch& columns) {
  return {.first = columns.first, .count = columns.count, .stride = columns.stride};
}

void GptHead::Exponentiate(Stream& stream, const Array& matrix, const GptActivations& shared, const Stretch& rows,
                           const Stretch& columns, const Array& exponentials) const {
  const Array weights = matrix.Slice(columns.first * width_, columns.count * width_);
  const bool in_place = shared.logits.empty();
  const Array logits = in_place ? exponentials : shared.logits.Slice(0, rows.count * columns.stride);
  product(rows, columns).Forward(stream, shared.y.Slice(rows.first * width_, rows.count * width_), weights, {}, logits);
  stream.device().transformer().LossExponentials(stream, Vocabulary(columns),
                                                 SliceRows(shared.loss_rows, rows.first, rows.count), logits, exponentials,
                                                 BlockMaximum(shared, rows, columns));
}

void GptHead::Loss(Stream& stream, std::span<const Array> parameters, const GptActivations& shared) const {
  for (const Stretch& rows : rows_) {
    for (const Stretch& columns : columns_) {
      const Array block = shared.exponentials.Slice(0, rows.count * columns.stride);
      Exponentiate(stream, parameters[kMatrix], shared, rows, columns, block);
    }
  }
  stream.device().transformer().LossSum(stream, shared.loss_rows, shared.loss);
}

void GptHead::Backward(Stream& stream, const Array& matrix, const GradientTarget& target, const GptActivations& shared,
                       const Stretch& rows, const Stretch& columns, const LossScaling& scaling) const {
  const Array block = Exponentials(shared, rows, columns);
  stream.device().transformer().LossGradient(stream, Vocabulary(columns),
                                             SliceRows(shared.loss_rows, rows.first, rows.count),
                                             BlockMaximum(shared, rows, columns), scaling.factor, block, scaling.on_device);
  const int64_t first = columns.first * width_, count = columns.count * width_;
  const Linear& linear = product(rows, columns);
  linear.InputGradient(stream, block, matrix.Slice(first, count),
                       shared.d_y.Slice(rows.first * width_, rows.count * width_));
  if (target.array.empty()) return;
  // Rows after the first add to what those left.
  const GradientTarget part{.array = target.array.Slice(first, count), .accumulate = target.accumulate || rows.first > 0};
  WriteWeightGradient(stream, linear, block, shared.y.Slice(rows.first * width_, rows.count * width_), part);
}

void GptHead::LossAndBackward(Stream& stream, std::span<const Array> parameters, std::span<const GradientTarget> targets,
                              const GptActivations& shared, const LossScaling& scaling) const {
  device::TransformerKernels& kernels = stream.device().transformer();
  stream.device().elementwise().Fill(stream, shared.d_y, 0.0);
  for (const Stretch& rows : rows_) {
    for (const Stretch& columns : columns_) {
      Exponentiate(stream, parameters[kMatrix], shared, rows, columns, Exponentials(shared, rows, columns));
    }
    for (const Stretch& columns : columns_) {
      Backward(stream, parameters[kMatrix], targets[kMatrix], shared, rows, columns, scaling);
    }
  }
  kernels.LossSum(stream, shared.loss_rows, shared.loss);
  kernels.LayerNormBackward(stream, shared.d_y, shared.head_norm.normalized, shared.head_norm.inverse_deviation,
                            parameters[kNormWeight], shared.d_residual, WriteMode::kOverwrite, shared.partials,
                            {.rounded = shared.rounding()});
  WriteRowSums(stream, {{shared.partials.weight, targets[kNormWeight]}, {shared.partials.bias, targets[kNormBias]}});
}

void GptHead::Logits(Stream& stream, std::span<const Array> parameters, const GptActivations& shared, int64_t row,
                     device::Out logits) const {
  logits_->Run(stream, shared.y.Slice(row * width_, width_), parameters[kMatrix], logits.array);
}

}  // namespace zeroshard::model
