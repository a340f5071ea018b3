// What kernels ask of their arrays, the same on every device. Sizes and dtypes that do not agree are a bug of the caller's and end the
// program with the kernel's name.
//
// Example:
//   kernel_checks::Gelu(x, y);
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "zeroshard/device/array.h"
#include "zeroshard/device/attention.h"
#include "zeroshard/device/transformer_kernels.h"

namespace zeroshard::device::kernel_checks {

// Of elementwise.h.
void Copy(const Array& x, const Array& y);
void Convert(const Array& x, const Array& y);
void Accumulate(const Array& x, const Array& y);
void Scale(const Array& y);

// Of transformer_kernels.h.
void Embed(const Array& tokens, const Array& table, const Array& positions, const Array& x);
void EmbedTokensBackward(const Array& tokens, const Array& d_x, const Array& d_table);
void EmbedPositionsBackward(const Array& d_x, const Array& d_positions);
void LayerNorm(const Array& x, const Array& weight, const Array& bias, const Array& normalized,
               const Array& inverse_deviation, const Array& y);
void LayerNormBackward(const Array& d_y, const Array& normalized, const Array& inverse_deviation, const Array& weight,
                       const Array& d_x, const LayerNormPartials& partials, const LayerNormForProducts& products);
void Gelu(const Array& x, const Array& y);
void GeluBackward(const Array& x, const Array& d, const Array& partials, int64_t width);
void SumRows(std::span<const RowSum> sums);
void LossExponentials(VocabularyColumns columns, const LossRows& rows, const Array& logits, const Array& exponentials,
                      const Array& block_maximum);
void LossGradient(VocabularyColumns columns, const LossRows& rows, const Array& block_maximum, const Array& exponentials,
                  const Array& loss_scale);

// Of attention.h: qkv, or its gradient; out, or its gradient; log_sum_exp.
void Attention(const AttentionSpec& spec, const Array& qkv, const Array& out, const Array& log_sum_exp);
void AttentionWorkspace(int64_t bytes, const Array& workspace);
// Errors: kInvalidArgument if a size is below 1; kUnimplemented for a dtype other than fp32, bf16 and fp16.
absl::Status CheckAttention(const AttentionSpec& spec);

}  // namespace zeroshard::device::kernel_checks
